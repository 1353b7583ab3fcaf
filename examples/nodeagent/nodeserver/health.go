// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
)

// Check is a health check.
type Check struct {
	// Name is the last part of the check's path. Required, and unique.
	Name string
	// Do returns nil if the check succeeds. Its error is not shown in the list of /healthz.
	Do func(context.Context) error
}

// Health serves /healthz with the result of all checks, and /healthz/NAME for each check. The check
// "ping", which always succeeds, is added. The answers are those of the kubelet 1.36.
func Health(checks ...Check) Group {
	checks = withPing(checks)
	routes := []route{{pattern: "/healthz", handler: allChecks(checks)}}
	for _, c := range checks {
		routes = append(routes, route{pattern: "/healthz/" + c.Name, handler: oneCheck(c)})
	}
	return Group{routes}
}

// withPing returns the checks after the check "ping".
func withPing(checks []Check) []Check {
	ping := Check{Name: "ping", Do: func(context.Context) error { return nil }}
	return append([]Check{ping}, checks...)
}

// allChecks answers "ok". With the parameter verbose, or if a check fails, it answers with the list
// of all checks. The parameter exclude leaves out the check of that name.
func allChecks(checks []Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		var list bytes.Buffer
		failed := false
		for _, c := range checks {
			switch {
			case slices.Contains(query["exclude"], c.Name):
				fmt.Fprintf(&list, "[+]%s excluded: ok\n", c.Name)
			case c.Do(r.Context()) == nil:
				fmt.Fprintf(&list, "[+]%s ok\n", c.Name)
			default:
				fmt.Fprintf(&list, "[-]%s failed: reason withheld\n", c.Name)
				failed = true
			}
		}
		switch {
		case failed:
			http.Error(w, list.String()+"healthz check failed", http.StatusInternalServerError)
		case query.Has("verbose"):
			reply(w, http.StatusOK, list.String()+"healthz check passed\n")
		default:
			reply(w, http.StatusOK, "ok")
		}
	}
}

func oneCheck(c Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := c.Do(r.Context()); err != nil {
			http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
			return
		}
		reply(w, http.StatusOK, "ok")
	}
}
