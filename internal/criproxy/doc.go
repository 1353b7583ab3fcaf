// SPDX-License-Identifier: Apache-2.0

// Package criproxy is a proxy between a CRI client and a container runtime, for tests and
// measurements. It records calls, and can hold selected calls.
package criproxy
