// SPDX-License-Identifier: Apache-2.0

// Command coredns is CoreDNS with the plug-ins that a cluster of make conformance needs. The other
// plug-ins would make the build three times as long. ../program.sh builds the command, and
// KEELSON_COREDNS of internal/conformance is its path:
//
//	KEELSON_COREDNS=$(e2e/program.sh coredns)
//
// The module is separate from module ../kubernetes, because the two require different versions of
// the same libraries.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	// The order of the plug-ins is that of CoreDNS's own plugin.cfg.
	dnsserver.Directives = []string{"bind", "errors", "cache", "kubernetes"}
	coremain.Run()
}
