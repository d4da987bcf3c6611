"""A saved Hugging Face Hub: an address, and where the token is kept. Never the token."""

from prefect.blocks.core import Block
from pydantic import Field

from blocks.clusters.job import SecretRef
from blocks.hub_access import HubAccess


class HuggingFaceHub(Block):
    """Where models and datasets are staged from."""

    _block_type_name = "Slipway Hugging Face Hub"
    _block_type_slug = "hugging-face-hub"
    _description = "The Hub that snapshots are staged from. The token stays where the cluster keeps its secrets."

    endpoint: str = Field(
        title="Endpoint",
        description="Address of the Hub: https://huggingface.co, or a mirror.",
        pattern=r"^https?://[^\s/@]+(/[^@]*)?$",
        json_schema_extra={"position": 0},
    )
    token: SecretRef | None = Field(
        default=None,
        title="Token",
        description="For gated and private repositories: name and key of the secret in which the cluster keeps the "
        "token. Never the token itself.",
        json_schema_extra={"position": 1},
    )

    def access(self) -> HubAccess:
        return HubAccess(endpoint=self.endpoint, token=self.token)
