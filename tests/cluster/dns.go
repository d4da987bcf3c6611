// Cluster DNS: CoreDNS with what answers for Services and pods, and none of its clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes"}
	coremain.Run()
}
