// SPDX-License-Identifier: Apache-2.0

// Package prober finds out whether containers are alive, ready and started.
package prober
