// SPDX-License-Identifier: Apache-2.0

// Package criproxy stands between a client of the container runtime interface and
// a runtime, for tests and measurements: it records the calls, and can keep some
// of them waiting.
package criproxy
