// SPDX-License-Identifier: Apache-2.0

//go:build !nodevices && nometrics

package main

import "time"

// deviceMetrics is empty in a program built without metrics.
type deviceMetrics struct{}

func (*metrics) devices() (none deviceMetrics) { return none }

func (deviceMetrics) registered(string)               {}
func (deviceMetrics) allocated(string, time.Duration) {}
func (deviceMetrics) called(string, error)            {}
