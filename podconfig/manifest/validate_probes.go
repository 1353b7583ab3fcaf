// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateProbes(r *report, c *v1.Container, p *field.Path) {
	for _, named := range []struct {
		name  string
		probe *v1.Probe
	}{{"livenessProbe", c.LivenessProbe}, {"startupProbe", c.StartupProbe}} {
		if named.probe == nil {
			continue
		}
		at := p.Child(named.name)
		validateProbe(r, named.probe, at)
		if named.probe.SuccessThreshold != 1 {
			r.number(at.Child("successThreshold"), int64(named.probe.SuccessThreshold), "must be 1")
		}
		if grace := named.probe.TerminationGracePeriodSeconds; grace != nil && *grace <= 0 {
			r.number(at.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0")
		}
	}
	if c.ReadinessProbe != nil {
		at := p.Child("readinessProbe")
		validateProbe(r, c.ReadinessProbe, at)
		if grace := c.ReadinessProbe.TerminationGracePeriodSeconds; grace != nil {
			r.number(at.Child("terminationGracePeriodSeconds"), *grace, "must not be set for readinessProbes")
		}
	}
}

func validateProbe(r *report, probe *v1.Probe, p *field.Path) {
	r.exactlyOne(p, "handler type: exec, httpGet, tcpSocket or grpc",
		probe.Exec != nil, probe.HTTPGet != nil, probe.TCPSocket != nil, probe.GRPC != nil)
	validateExec(r, probe.Exec, p.Child("exec"))
	validateHTTPGet(r, probe.HTTPGet, p.Child("httpGet"))
	validateTCPSocket(r, probe.TCPSocket, p.Child("tcpSocket"))
	if probe.GRPC != nil {
		validatePortNumber(r, p.Child("grpc", "port"), probe.GRPC.Port)
	}
	r.notNegative(p.Child("initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	r.notNegative(p.Child("timeoutSeconds"), int64(probe.TimeoutSeconds))
	r.notNegative(p.Child("periodSeconds"), int64(probe.PeriodSeconds))
	r.notNegative(p.Child("successThreshold"), int64(probe.SuccessThreshold))
	r.notNegative(p.Child("failureThreshold"), int64(probe.FailureThreshold))
}

func validateExec(r *report, exec *v1.ExecAction, p *field.Path) {
	if exec == nil {
		return
	}
	if len(exec.Command) == 0 {
		r.required(p.Child("command"), "")
	}
	for i, word := range exec.Command {
		r.noZero(p.Child("command").Index(i), word)
	}
}

func validateHTTPGet(r *report, get *v1.HTTPGetAction, p *field.Path) {
	if get == nil {
		return
	}
	if get.Path == "" {
		r.required(p.Child("path"), "")
	}
	validatePort(r, get.Port, p.Child("port"))
	oneOf(r, p.Child("scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	for i, header := range get.HTTPHeaders {
		r.faults(p.Child("httpHeaders").Index(i).Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))
		if strings.ContainsAny(header.Value, "\r\n\x00") {
			r.hidden(p.Child("httpHeaders").Index(i).Child("value"), "must not contain line breaks")
		}
	}
}

func validateTCPSocket(r *report, socket *v1.TCPSocketAction, p *field.Path) {
	if socket != nil {
		validatePort(r, socket.Port, p.Child("port"))
	}
}

// validatePort accepts a number or the name of a port. As in the API server, a port of the name
// need not exist.
func validatePort(r *report, port intstr.IntOrString, p *field.Path) {
	if port.Type == intstr.Int {
		validatePortNumber(r, p, port.IntVal)
		return
	}
	r.faults(p, port.StrVal, validation.IsValidPortName(port.StrVal))
}

func validateLifecycle(r *report, spec *v1.PodSpec, c *v1.Container, p *field.Path) {
	if c.Lifecycle == nil {
		return
	}
	validateHook(r, spec, c.Lifecycle.PostStart, p.Child("postStart"))
	validateHook(r, spec, c.Lifecycle.PreStop, p.Child("preStop"))
	if signal := c.Lifecycle.StopSignal; signal != nil {
		if spec.OS == nil || spec.OS.Name == "" {
			r.forbidden(p.Child("stopSignal"), "may not be set without spec.os.name")
		}
		if !strings.HasPrefix(string(*signal), "SIG") {
			r.invalid(p.Child("stopSignal"), string(*signal), `must be the name of a signal such as "SIGUSR1"`)
		}
	}
}

func validateHook(r *report, spec *v1.PodSpec, hook *v1.LifecycleHandler, p *field.Path) {
	if hook == nil {
		return
	}
	r.exactlyOne(p, "handler type: exec, httpGet, tcpSocket or sleep",
		hook.Exec != nil, hook.HTTPGet != nil, hook.TCPSocket != nil, hook.Sleep != nil)
	validateExec(r, hook.Exec, p.Child("exec"))
	validateHTTPGet(r, hook.HTTPGet, p.Child("httpGet"))
	validateTCPSocket(r, hook.TCPSocket, p.Child("tcpSocket"))
	if hook.Sleep == nil {
		return
	}
	at := p.Child("sleep", "seconds")
	r.notNegative(at, hook.Sleep.Seconds)
	if grace := spec.TerminationGracePeriodSeconds; grace != nil && hook.Sleep.Seconds > *grace {
		r.number(at, hook.Sleep.Seconds, "must not exceed terminationGracePeriodSeconds")
	}
}
