// SPDX-License-Identifier: Apache-2.0

// Package httpaction makes the requests of httpGet handlers: of probes and of lifecycle hooks. Both
// follow the kubelet 1.37.
package httpaction

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// MaxRedirects is how many redirects to the same host a client follows.
const MaxRedirects = 10

// ErrRedirects is the error of a server with more redirects than [MaxRedirects].
var ErrRedirects = fmt.Errorf("stopped after %d redirects", MaxRedirects)

// Address returns host and port for the action of a container.
func Address(host string, port intstr.IntOrString, c *v1.Container) (string, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		number = namedPort(port.StrVal, c)
	}
	if number < 1 || number > 65535 {
		return "", fmt.Errorf("port %q is neither a port number nor a port of container %s", port.String(), c.Name)
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// namedPort returns the port of the container with the name, or the number that the name is; 0 if
// there is neither.
func namedPort(name string, c *v1.Container) int {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return int(c.Ports[i].ContainerPort)
		}
	}
	number, err := strconv.Atoi(name)
	if err != nil {
		return 0
	}
	return number
}

// Request returns the request of action to address. The headers of the action come first; userAgent
// and an Accept header for everything are sent if the action has no such header. An empty User-Agent
// or Accept of the action suppresses the header.
func Request(ctx context.Context, action *v1.HTTPGetAction, address, userAgent string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://target/", nil)
	if err != nil {
		return nil, err
	}
	req.URL, req.Host = target(action, address), address
	for _, header := range action.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host // net/http ignores a Host header in req.Header
	}
	if _, given := req.Header["User-Agent"]; !given {
		req.Header.Set("User-Agent", userAgent)
	}
	switch accept, given := req.Header["Accept"]; {
	case !given:
		req.Header.Set("Accept", "*/*")
	case strings.Join(accept, "") == "":
		req.Header.Del("Accept")
	}
	return req, nil
}

// target returns the URL of action. A host, a user or a scheme in the path of the action is not
// used.
func target(action *v1.HTTPGetAction, address string) *url.URL {
	scheme := cmp.Or(strings.ToLower(string(action.Scheme)), "http")
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme, u.Host, u.User = scheme, address, nil
	if !strings.HasPrefix(u.Path, "/") {
		// As a client of a URL without the slash does; "x:y" is no path to url.Parse.
		u = &url.URL{Scheme: scheme, Host: address, Path: "/" + cmp.Or(u.Opaque, u.Path), RawQuery: u.RawQuery}
	}
	u.Opaque = ""
	return u
}

// CheckRedirect lets a server redirect to itself, on any port. A redirect to another host is an
// ordinary answer. Credentials do not follow a redirect to another scheme: net/http compares hosts
// only.
func CheckRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case req.URL.Hostname() != via[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(via) >= MaxRedirects:
		return ErrRedirects
	case req.URL.Scheme != via[0].URL.Scheme:
		req.Header.Del("Authorization")
	}
	return nil
}
