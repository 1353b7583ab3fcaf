// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The requirements of a pod on a node with limits, besides resources: host ports, an operating
// system, and tolerated taints.

const reasonPorts = "NodePorts"

// impossibilities are the reasons for which a pod can never run on a node, in the order of their
// precedence.
var impossibilities = []string{"PodOSSelectorNodeLabelDoesNotMatch", "PodOSNotSupported", "SysctlForbidden", "NodeAffinity", "TaintToleration"}

func placing() ability {
	return ability{
		feature: FeatureAdmission, percent: 40, check: (*checker).foreigners,
		word: func(g *generator) string {
			if !g.limited {
				return ""
			}
			return pick(g, "", " taint=example.com/maintenance:NoExecute", " taint=example.com/maintenance:NoSchedule")
		},
		fields: func(g *generator, _ string) (s string) {
			if !g.limited {
				return g.foreign()
			}
			for _, need := range []struct {
				percent int
				text    string
			}{
				{50, " port=80" + pick(g, "", "", "/UDP", "@10.0.0.1", "@10.0.0.2")}, {20, " initport=" + pick(g, "80", "81")}, {20, " hostnetwork"},
				{8, " os=" + pick(g, "windows", "linux")}, {8, " oslabel=" + pick(g, "windows", "linux")}, {60, " tolerate=example.com/" + pick(g, "maintenance", "maintenance", "maintenance:NoExecute", "maintenance:NoSchedule", "other")},
			} {
				if g.chance(need.percent) {
					s += need.text
				}
			}
			return s
		},
	}
}

// foreign returns the operating system of some pods, which the agent refuses without other limits, too.
func (g *generator) foreign() string {
	if g.peaceful || !g.chance(8) {
		return ""
	}
	return " os=windows"
}

// foreigners checks that no container of a pod of another operating system is started.
func (c *checker) foreigners() {
	manifests := c.manifests()
	for _, i := range c.instances {
		if i.called >= 0 && !slices.ContainsFunc(manifests[i.uid], func(pod *v1.Pod) bool { return pod.Spec.OS == nil || pod.Spec.OS.Name == v1.Linux }) {
			c.violate(i.called, "%s (%s %s/%s) is started, and its pod is of another operating system", i.id, i.pod, i.uid, i.name)
		}
	}
}

// place takes the requirements of a pod on its node.
func (a *args) place(pod *v1.Pod) {
	pod.Spec.HostNetwork = a.flag("hostnetwork")
	if word, ok := a.option("port"); ok {
		pod.Spec.Containers[0].Ports = []v1.ContainerPort{a.port(word, pod.Spec.HostNetwork)}
	}
	if word, ok := a.option("initport"); ok {
		for i := range pod.Spec.InitContainers {
			pod.Spec.InitContainers[i].Ports = []v1.ContainerPort{a.port(word, pod.Spec.HostNetwork)}
		}
	}
	if name, ok := a.option("os"); ok {
		pod.Spec.OS = &v1.PodOS{Name: v1.OSName(name)}
	}
	if name, ok := a.option("oslabel"); ok {
		pod.Labels = map[string]string{v1.LabelOSStable: name}
	}
	if word, ok := a.option("tolerate"); ok {
		key, effect, _ := strings.Cut(word, ":")
		pod.Spec.Tolerations = []v1.Toleration{{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffect(effect)}}
	}
	if word, ok := a.option("near"); ok {
		selector := &v1.NodeSelector{}
		for _, zone := range strings.Split(word, ",") {
			is := v1.NodeSelectorRequirement{Key: zoneLabel, Operator: v1.NodeSelectorOpIn, Values: []string{strings.TrimPrefix(zone, "!")}}
			if strings.HasPrefix(zone, "!") {
				is.Operator = v1.NodeSelectorOpNotIn
			}
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{is}})
		}
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	}
}

func (a *args) port(word string, hostNetwork bool) (port v1.ContainerPort) {
	word, port.HostIP, _ = strings.Cut(word, "@")
	word, protocol, _ := strings.Cut(word, "/")
	port.ContainerPort, port.Protocol = int32(a.toNumber(word)), v1.Protocol(protocol)
	if !hostNetwork {
		port.HostPort = port.ContainerPort
	}
	return port
}

func (a *args) taints() []v1.Taint {
	word, ok := a.option("taint")
	if !ok {
		return nil
	}
	key, effect, _ := strings.Cut(word, ":")
	return []v1.Taint{{Key: key, Effect: v1.TaintEffect(effect)}}
}

// impossible returns the reasons for which a pod can never run on the node.
func (p *peace) impossible(uid types.UID, life int) (reasons []string) {
	pod := p.manifest(uid, p.wanted[uid][life].from)
	zone, zoned := pod.Spec.NodeSelector[zoneLabel]
	system, labelled := pod.Labels[v1.LabelOSStable]
	is := []bool{
		labelled && system != "linux",
		pod.Spec.OS != nil && pod.Spec.OS.Name != v1.Linux,
		pod.Spec.SecurityContext != nil && len(pod.Spec.SecurityContext.Sysctls) > 0,
		zoned && zone != zoneHere || !nearHere(pod),
		!p.wanted[uid][life].static && slices.ContainsFunc(p.taints, func(t v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute && !bears(pod, t) }),
	}
	for i, reason := range impossibilities {
		if is[i] {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// nearHere reports whether one of the zones of a pod's affinity is the node's.
func nearHere(pod *v1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return true
	}
	for _, term := range pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		if is := term.MatchExpressions[0]; (is.Values[0] == zoneHere) == (is.Operator == v1.NodeSelectorOpIn) {
			return true
		}
	}
	return false
}

// bears reports whether a pod tolerates a taint of the node.
func bears(pod *v1.Pod, taint v1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		return t.Key == taint.Key && (t.Effect == "" || t.Effect == taint.Effect)
	})
}

// limits are the limits of a node. Without room the node has no limits.
type limits struct {
	room   v1.ResourceList
	taints []v1.Taint
}

// portsOf returns the host ports of a pod.
func portsOf(pod *v1.Pod) (ports []v1.ContainerPort) {
	for _, c := range allContainers(pod) {
		if !isPlainInit(pod, c) {
			ports = append(ports, c.Ports...)
		}
	}
	return ports
}

// clash reports whether the host ports of two pods conflict.
func clash(a, b *v1.Pod) bool {
	return slices.ContainsFunc(portsOf(a), func(own v1.ContainerPort) bool {
		return slices.ContainsFunc(portsOf(b), func(other v1.ContainerPort) bool {
			return own.ContainerPort == other.ContainerPort && own.Protocol == other.Protocol && (own.HostIP == other.HostIP || own.HostIP == "" || other.HostIP == "")
		})
	})
}

// portTaken reports whether another pod has a host port of a life at some time.
func (p *peace) portTaken(t tenant, at time.Duration) bool {
	return slices.ContainsFunc(p.others(t, at), func(o tenant) bool {
		return clash(p.manifest(t.uid, p.wanted[t.uid][t.life].from), p.manifest(o.uid, p.wanted[o.uid][o.life].from))
	})
}

// portRefusal judges that another pod had a host port of a refused pod.
func (p *peace) portRefusal(t tenant, at time.Duration) {
	if !p.portTaken(t, at) && !p.portTaken(t, at+1) {
		p.violate(at, "%s is refused by reason of %s, and no other pod has its ports", t.uid, reasonPorts)
	}
}
