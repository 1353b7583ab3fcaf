// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodestatus"
)

// statusFlags are the flags for the Node object. Names and defaults are those of the kubelet's flags,
// or of the fields of its configuration (1.36).
type statusFlags struct {
	update, report time.Duration
	lease          int32 // seconds
	images         int   // negative: no limit; 0: none
	providerID     string
}

func (s *statusFlags) register(set *pflag.FlagSet) {
	set.StringVar(&s.providerID, "provider-id", "", "with --kubeconfig: this node's ID at its cloud provider, set when the Node object is created")
	set.DurationVar(&s.update, "node-status-update-frequency", 10*time.Second, "with --kubeconfig: interval at which the status of the Node object is computed")
	set.DurationVar(&s.report, "node-status-report-frequency", 5*time.Minute, "with --kubeconfig: time after which an unchanged status is written again (default: --node-status-update-frequency, if given)")
	set.Int32Var(&s.lease, "node-lease-duration-seconds", 40, "with --kubeconfig: duration of the lease, which is renewed four times in this time; later the node counts as lost")
	set.IntVar(&s.images, "node-status-max-images", 50, "with --kubeconfig: how many images the Node object lists, largest first; -1 = all")
}

// complete sets defaults and validates the flags.
func (s *statusFlags) complete(set *pflag.FlagSet) error {
	if set.Changed("node-status-update-frequency") && !set.Changed("node-status-report-frequency") {
		s.report = s.update
	}
	switch {
	case s.update <= 0 || s.report <= 0:
		return fmt.Errorf("--node-status-update-frequency %s, --node-status-report-frequency %s: want more than 0", s.update, s.report)
	case s.lease <= 0:
		return fmt.Errorf("--node-lease-duration-seconds %d: want more than 0", s.lease)
	case s.images < -1:
		return fmt.Errorf("--node-status-max-images %d: want -1 or more", s.images)
	}
	return nil
}

// apply sets the options of the reporter.
func (s *statusFlags) apply(o *nodestatus.Options) {
	o.ProviderID, o.UpdateInterval, o.ReportInterval = s.providerID, s.update, s.report
	o.LeaseDuration, o.MaxImages = time.Duration(s.lease)*time.Second, s.images
}
