// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	v1 "k8s.io/api/core/v1"
)

func setProbeDefaults(p *v1.Probe) {
	if p == nil {
		return
	}
	setIfZero(&p.TimeoutSeconds, 1)
	setIfZero(&p.PeriodSeconds, 10)
	setIfZero(&p.SuccessThreshold, 1)
	setIfZero(&p.FailureThreshold, 3)
	setHTTPGetDefaults(p.HTTPGet)
	if p.GRPC != nil {
		setIfNil(&p.GRPC.Service, "")
	}
}

func setHookDefaults(h *v1.LifecycleHandler) {
	if h != nil {
		setHTTPGetDefaults(h.HTTPGet)
	}
}

func setHTTPGetDefaults(get *v1.HTTPGetAction) {
	if get != nil {
		setIfZero(&get.Path, "/")
		setIfZero(&get.Scheme, v1.URISchemeHTTP)
	}
}
