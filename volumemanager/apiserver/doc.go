// SPDX-License-Identifier: Apache-2.0

// Package apiserver x.
package apiserver
