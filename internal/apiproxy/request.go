// SPDX-License-Identifier: Apache-2.0

package apiproxy

import (
	"net/http"
	"slices"
	"strings"
)

// Request describes a request to an API server. For a path without a resource (/healthz, /version)
// Resource is empty and Verb is the method in lower case.
type Request struct {
	// Verb is get, list, watch, create, update, patch, delete or
	// deletecollection, as in RBAC rules.
	Verb string
	// Group is the API group, "" for core/v1.
	Group string
	// Resource is a plural name as in "pods", Subresource as in "status".
	Resource, Subresource string
	// Namespace and Name are the object's; each may be empty.
	Namespace, Name string
	// Path is the path of the URL, and Query its query string.
	Path, Query string
	// UserAgent is the User-Agent header of the client.
	UserAgent string
}

// parse reads a request.
func parse(r *http.Request) Request {
	out := Request{Path: r.URL.Path, Query: r.URL.RawQuery, UserAgent: r.UserAgent(), Verb: strings.ToLower(r.Method)}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(parts) >= 3 && parts[0] == "api": // api/v1/…
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis": // apis/group/version/…
		out.Group, parts = parts[1], parts[3:]
	default:
		return out
	}
	if slices.Contains(parts, "") { // a path with // in it names nothing
		out.Group = ""
		return out
	}
	// namespaces/ns is a namespace, and so is namespaces/ns/status and …/finalize.
	if len(parts) >= 3 && parts[0] == "namespaces" && parts[2] != "status" && parts[2] != "finalize" {
		out.Namespace, parts = parts[1], parts[2:]
	}
	out.Resource = parts[0]
	if len(parts) > 1 {
		out.Name = parts[1]
	}
	if len(parts) > 2 {
		out.Subresource = parts[2]
	}
	out.Verb = verb(r, out.Name != "")
	return out
}

// verb is the verb of a request for a resource.
func verb(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet:
		switch watch := r.URL.Query().Get("watch"); {
		case watch == "true" || watch == "1":
			return "watch"
		case named:
			return "get"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if !named {
			return "deletecollection"
		}
	}
	return strings.ToLower(r.Method)
}
