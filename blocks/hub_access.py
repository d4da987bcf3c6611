"""How to reach a Hugging Face Hub: its address, and where its token is kept. Free of Prefect."""

from pydantic import Field

from blocks.clusters.job import Frozen, SecretRef

PUBLIC_HUB = "https://huggingface.co"


class HubAccess(Frozen):
    """What staging jobs need to download from a Hub; nothing else ever gets the token.

    Args:
        endpoint: URL of the Hub.
        token: where the token is kept; None for public repositories.
    """

    endpoint: str = Field(default=PUBLIC_HUB, pattern=r"^https?://[^\s/@]+(/[^@]*)?$")
    token: SecretRef | None = None

    def env(self) -> dict[str, str]:
        return {"HF_ENDPOINT": self.endpoint.rstrip("/"), "HF_HUB_DISABLE_TELEMETRY": "1"}

    def secrets(self) -> dict[str, SecretRef]:
        return {"HF_TOKEN": self.token} if self.token else {}
