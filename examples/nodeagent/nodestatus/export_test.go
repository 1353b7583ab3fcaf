// SPDX-License-Identifier: Apache-2.0

package nodestatus

// Internal names for the external tests.

const (
	CheckInterval  = checkInterval
	LeaseDuration  = defaultLeaseDuration
	LeaseInterval  = defaultLeaseDuration / leaseRenewals
	ReasonNotReady = reasonNotReady
	RequestTimeout = requestTimeout
)
