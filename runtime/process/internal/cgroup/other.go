// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cgroup

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/runtime/process/internal/record"
)

// Parent does not exist on this system.
type Parent struct{}

// Open fails: this system has no cgroups.
func Open(string) (*Parent, error) { return nil, errors.ErrUnsupported }

// Lacks tells that the system has no cgroups.
func (*Parent) Lacks(string) string { return "this system has no cgroups" }

// Group returns a cgroup without folders.
func (*Parent) Group(string, string) *record.Cgroup { return &record.Cgroup{} }

// Make does nothing.
func Make(*record.Cgroup) error { return nil }

// Remove does nothing.
func Remove(context.Context, *record.Cgroup) error { return nil }

// OOMKilled is false.
func OOMKilled(*record.Cgroup) bool { return false }

// Update does nothing.
func Update(*record.Cgroup, record.Limits) error { return nil }

// LimitsOf returns no limits.
func LimitsOf(*record.Cgroup) record.Limits { return record.Limits{} }
