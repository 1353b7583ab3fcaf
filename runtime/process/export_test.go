// SPDX-License-Identifier: Apache-2.0

package process

// WithoutNamespaces makes a backend behave as on a kernel without namespaces.
func WithoutNamespaces(r *Runtime) { r.host.Namespaces = false }

// HasNamespaces reports whether containers have namespaces of their own.
func HasNamespaces(r *Runtime) bool { return r.confine && r.host.Namespaces }

// HasUsers reports whether containers of images may have all users.
func HasUsers(r *Runtime) bool { return r.ids != nil }

// ForgetUsers makes a backend one whose user has lost the subordinate IDs.
func ForgetUsers(r *Runtime) { r.ids, r.users = nil, nil }
