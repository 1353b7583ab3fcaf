// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// CheckHost returns a handler that passes a request to next if its Host header is localhost, a
// loopback address, the local address of the connection, or an element of names. The port is
// ignored. An unspecified address such as 0.0.0.0 counts as a loopback address. Other requests are
// answered with 403.
//
// CheckHost protects against DNS rebinding. The owner of a web site can let the site's host name
// resolve to 127.0.0.1, so that a browser on this machine reads data without authentication and
// passes the data to the site. The Host header of such a request has the site's host name.
func CheckHost(next http.Handler, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if !allowsHost(r.Host, local, names) {
			http.Error(w, fmt.Sprintf("the Host header %q is not a name of this server: use its address", r.Host), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowsHost reports whether a request with the Host header is passed on. local is nil if the local
// address is unknown.
func allowsHost(header string, local net.Addr, names []string) bool {
	host := header
	if name, _, err := net.SplitHostPort(header); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	if err != nil {
		same := func(name string) bool { return strings.EqualFold(strings.TrimSuffix(name, "."), host) }
		return host != "" && (same("localhost") || slices.ContainsFunc(names, same))
	}
	tcp, ok := local.(*net.TCPAddr)
	if ip.IsUnspecified() {
		return ok && tcp.IP.IsLoopback()
	}
	return ip.Unmap().IsLoopback() || ok && tcp.AddrPort().Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}
