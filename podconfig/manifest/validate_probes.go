// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// onlySidecars is the reason to refuse probes and hooks of init containers, which end before the
// pod is running.
const onlySidecars = "may not be set for init containers without restartPolicy=Always"

// handlerObject is object for a probe or hook and the objects inside it.
func (c *checker) handlerObject(x any, p *field.Path) {
	switch x := x.(type) {
	case *v1.Probe:
		c.probe(x, p)
	case *v1.Lifecycle:
		if c.isInit {
			c.forbidden(p, onlySidecars)
		}
		if x.StopSignal != nil {
			c.stopSignal(p.Child("stopSignal"), string(*x.StopSignal))
		}
	case *v1.LifecycleHandler:
		c.exactlyOne(p, "handler type: exec, httpGet, tcpSocket or sleep", *x)
	case *v1.ExecAction:
		if len(x.Command) == 0 {
			c.required(p.Child("command"), "")
		}
		c.noZeros(p.Child("command"), x.Command)
	case *v1.HTTPGetAction:
		c.httpGet(x, p)
	case *v1.TCPSocketAction:
		c.handlerPort(p.Child("port"), x.Port)
	case *v1.GRPCAction:
		c.portNumber(p.Child("port"), x.Port)
	case *v1.SleepAction:
		c.notNegative(p.Child("seconds"), x.Seconds)
		if grace := c.spec.TerminationGracePeriodSeconds; grace != nil && x.Seconds > *grace {
			c.number(p.Child("seconds"), x.Seconds, "must not exceed terminationGracePeriodSeconds")
		}
	}
}

func (c *checker) probe(probe *v1.Probe, p *field.Path) {
	if c.isInit {
		c.forbidden(p, onlySidecars)
	}
	c.exactlyOne(p, "handler type: exec, httpGet, tcpSocket or grpc", probe.ProbeHandler)
	c.notNegative(p.Child("initialDelaySeconds"), int64(probe.InitialDelaySeconds))
	c.notNegative(p.Child("timeoutSeconds"), int64(probe.TimeoutSeconds))
	c.notNegative(p.Child("periodSeconds"), int64(probe.PeriodSeconds))
	c.notNegative(p.Child("successThreshold"), int64(probe.SuccessThreshold))
	c.notNegative(p.Child("failureThreshold"), int64(probe.FailureThreshold))
	isReadiness, grace := probe == c.container.ReadinessProbe, probe.TerminationGracePeriodSeconds
	if probe.SuccessThreshold != 1 && !isReadiness {
		c.number(p.Child("successThreshold"), int64(probe.SuccessThreshold), "must be 1")
	}
	switch at := p.Child("terminationGracePeriodSeconds"); {
	case grace == nil:
	case isReadiness:
		c.number(at, *grace, "must not be set for readinessProbes")
	case *grace <= 0:
		c.number(at, *grace, "must be greater than 0")
	}
}

func (c *checker) httpGet(get *v1.HTTPGetAction, p *field.Path) {
	c.present(p.Child("path"), get.Path, "")
	c.handlerPort(p.Child("port"), get.Port)
	oneOf(&c.report, p.Child("scheme"), get.Scheme, v1.URISchemeHTTP, v1.URISchemeHTTPS)
	for i, header := range get.HTTPHeaders {
		at := p.Child("httpHeaders").Index(i)
		c.match(at.Child("name"), header.Name, validation.IsHTTPHeaderName)
		if strings.ContainsAny(header.Value, "\r\n\x00") {
			c.hidden(at.Child("value"), "must not contain line breaks")
		}
	}
}

// handlerPort accepts a number or the name of a port. As in the API server, a port of the name need
// not exist.
func (c *checker) handlerPort(p *field.Path, port intstr.IntOrString) {
	if port.Type == intstr.Int {
		c.portNumber(p, port.IntVal)
		return
	}
	c.match(p, port.StrVal, validation.IsValidPortName)
}

func (c *checker) stopSignal(p *field.Path, signal string) {
	if c.spec.OS == nil || c.spec.OS.Name == "" {
		c.forbidden(p, "may not be set without spec.os.name")
	}
	if !strings.HasPrefix(signal, "SIG") {
		c.invalid(p, signal, `must be the name of a signal such as "SIGUSR1"`)
	}
}
