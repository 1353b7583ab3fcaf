// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"net/http"
	"path"
	"slices"
	"strings"
)

// User is an authenticated user, in the words of the Kubernetes API.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
}

// Attributes is a question to an Authorizer: may User apply Verb to the Subresource of the Node? The
// resource is always "nodes", of version v1.
type Attributes struct {
	User        User
	Verb        string // empty for a method without a verb, such as HEAD
	Subresource string
	Node        string
}

// proxyAccess is the subresource for all endpoints without a subresource of their own. It permits to
// run commands in containers.
const proxyAccess = "proxy"

// scopes are the subresources of a path and of all paths below it (kubelet 1.36, with fine-grained
// authorization). A request is allowed if a review of any of its subresources allows it. The reviews
// are made in order.
var scopes = []struct {
	path         string
	subresources []string
}{
	{"/stats", []string{"stats"}},
	{"/metrics", []string{"metrics"}},
	{"/logs", []string{"log"}},
	{"/checkpoint", []string{"checkpoint"}},
	{"/statusz", []string{"statusz"}},
	{"/flagz", []string{"configz"}},
	{"/configz", []string{"configz", proxyAccess}},
	{"/healthz", []string{"healthz", proxyAccess}},
	{"/pods", []string{"pods", proxyAccess}},
	{"/runningpods", []string{"pods", proxyAccess}},
}

// commands are the paths under which a client reaches the inside of a container. A WebSocket begins
// with GET, so the verb of the method would let a user with "get nodes/proxy" run commands.
var commands = []string{"/exec", "/attach", "/run", "/portForward"}

// verbs has the verb of each method.
var verbs = map[string]string{
	http.MethodGet:    "get",
	http.MethodPost:   "create",
	http.MethodPut:    "update",
	http.MethodPatch:  "patch",
	http.MethodDelete: "delete",
}

// attributesOf returns the verb and the subresources to ask for, in order. http.ServeMux chooses the
// endpoint by the escaped path, in which an escaped dot is no dot. So a path with dots or slashes to
// clean away may lead to any endpoint, and counts as a command.
func attributesOf(method, urlPath string) (verb string, subresources []string) {
	verb = verbs[method]
	isClean := urlPath == "/" || path.Clean(urlPath) == strings.TrimSuffix(urlPath, "/")
	if !isClean || slices.ContainsFunc(commands, func(command string) bool { return within(urlPath, command) }) {
		return "create", []string{proxyAccess}
	}
	for _, s := range scopes {
		if within(urlPath, s.path) {
			return verb, s.subresources
		}
	}
	return verb, []string{proxyAccess}
}

// within reports whether a path is root or below it.
func within(urlPath, root string) bool {
	rest, ok := strings.CutPrefix(urlPath, root)
	return ok && (rest == "" || rest[0] == '/')
}
