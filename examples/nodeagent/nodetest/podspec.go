// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/podconfig"
)

// podFields is the description of a pod in one line, for Commands.
const podFields = "NAME[@UID] [v=N] [main=C,…] [init=C,…] [sidecar=C,…] [restart=POLICY] [grace=SECONDS] [volume=V,…] [emptydir=V,…] [config=NAME] [env=KEY[?],…] " +
	"[live=C[:DELAY[:GRACE]]] [ready=C[:DELAY[:SUCCESSES]]] [startup=C[:DELAY[:GRACE]]] [period=SECONDS] [failures=N] [own=C:POLICY] [rule=C:CODE[,CODE…][:not][:all]]… [deadline=SECONDS] [cpu=MILLICORES] [memory=MIB] [disk=MIB] [initcpu=MILLICORES] [burst=N] [resizing=RESOURCE] [priority=N] [gate=CONDITION] [zone=NAME] [near=[!]ZONE[,[!]ZONE]] [sysctl=NAME] [port=N[/PROTOCOL][@IP]] [initport=N…] [hostnetwork] [os=NAME] [oslabel=NAME] [tolerate=KEY[:EFFECT]] [user=[C:]ID]… [pull=POLICY] [prestop=C:DURATION|fail|pass] [poststart=C:DURATION|fail|pass]"

// pod takes the description of a pod in a line.
func (a *args) pod() *v1.Pod {
	word := a.next("NAME")
	name, uid, hasUID := strings.Cut(word, "@")
	if !hasUID {
		uid = "uid-" + name
	}
	if !isName(name) || !isName(uid) {
		a.fail("%q is not NAME or NAME@UID, of lower-case letters, digits and -", word)
	}
	text := strings.Join(slices.Concat([]string{word}, a.words), " ")
	pod := Pod(name)
	pod.UID = types.UID(uid)
	version := a.number("v", 1)
	a.containers(pod, version)
	if v, ok := a.option("restart"); ok {
		pod.Spec.RestartPolicy = v1.RestartPolicy(v)
		if !slices.Contains([]v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}, pod.Spec.RestartPolicy) {
			a.fail("%q is none of Always, OnFailure, Never", v)
		}
	}
	GracePeriod(int64(a.number("grace", 30)))(pod)
	for _, name := range a.names("volume") {
		Volume(name)(pod)
	}
	for _, name := range a.names("emptydir") {
		mountVolume(pod, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	}
	for _, name := range a.names("config") {
		source := v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}
		mountVolume(pod, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{ConfigMap: &source}})
	}
	if seconds := int64(a.number("deadline", 0)); seconds > 0 {
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	a.environ(pod)
	a.needs(pod)
	a.probes(pod)
	a.hooks(pod)
	a.rules(pod)
	sum := sha256.Sum256([]byte(text))
	pod.Annotations = map[string]string{podconfig.AnnotationHash: hex.EncodeToString(sum[:8])}
	return pod
}

func isName(s string) bool {
	return s != "" && len(s) <= 60 && s[0] != '-' && s[len(s)-1] != '-' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// names takes an option with a list of names.
func (a *args) names(key string) []string {
	v, ok := a.option(key)
	if !ok {
		return nil
	}
	names := strings.Split(v, ",")
	for _, n := range names {
		if !isName(n) {
			a.fail("%s=%s: %q is no name of lower-case letters, digits and -", key, v, n)
		}
	}
	return names
}

func (a *args) containers(pod *v1.Pod, version int) {
	main := a.names("main")
	if main == nil {
		main = []string{"c"}
	}
	for _, kind := range []struct {
		names []string
		add   func(string) func(*v1.Pod)
	}{{a.names("sidecar"), Sidecar}, {a.names("init"), InitContainer}, {main, Container}} {
		for _, name := range kind.names {
			kind.add(name)(pod)
		}
	}
	pull := v1.PullIfNotPresent
	if word, ok := a.option("pull"); ok {
		if pull = v1.PullPolicy(word); !slices.Contains([]v1.PullPolicy{v1.PullAlways, v1.PullIfNotPresent, v1.PullNever}, pull) {
			a.fail("%q is none of Always, IfNotPresent, Never", word)
		}
	}
	seen := make(map[string]bool)
	for _, c := range allContainers(pod) {
		if seen[c.Name] {
			a.fail("there are two containers %q", c.Name)
		}
		seen[c.Name] = true
		c.Image, c.ImagePullPolicy = imageOf(c.Name, version), pull
	}
}

func imageOf(container string, version int) string {
	return fmt.Sprintf("localhost/%s:%d", container, version)
}

// allContainers returns the init and the regular containers of a pod. The caller may modify them.
func allContainers(pod *v1.Pod) (all []*v1.Container) {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, &list[i])
		}
	}
	return all
}

// of calls set for the container named in an option. rest is the text after the first colon.
func (a *args) of(pod *v1.Pod, key string, set func(c *v1.Container, rest string)) {
	word, ok := a.option(key)
	if !ok {
		return
	}
	name, rest, _ := strings.Cut(word, ":")
	for _, c := range allContainers(pod) {
		if c.Name == name {
			set(c, rest)
			return
		}
	}
	a.fail("%s=%s: there is no container %q", key, word, name)
}

// probeEvery is the default probe period of described pods in seconds. "period" sets another
// period.
const probeEvery = 5

func (a *args) probes(pod *v1.Pod) {
	period, failures := int32(a.number("period", probeEvery)), int32(-1)
	if word, ok := a.option("failures"); ok {
		failures = int32(a.toNumber(word))
	}
	probe := func(threshold int32) *v1.Probe {
		if failures >= 0 {
			threshold = failures
		}
		exec := &v1.ExecAction{Command: []string{"probe"}}
		return &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: exec}, TimeoutSeconds: 1, PeriodSeconds: period, SuccessThreshold: 1, FailureThreshold: threshold}
	}
	kills := func(p *v1.Probe, rest string) *v1.Probe {
		delay, grace, own := strings.Cut(rest, ":")
		if p.InitialDelaySeconds = a.wholeSeconds(delay); own {
			seconds := int64(a.wholeSeconds(grace))
			p.TerminationGracePeriodSeconds = &seconds
		}
		return p
	}
	a.of(pod, "live", func(c *v1.Container, rest string) { c.LivenessProbe = kills(probe(3), rest) })
	a.of(pod, "startup", func(c *v1.Container, rest string) { c.StartupProbe = kills(probe(10), rest) })
	a.of(pod, "ready", func(c *v1.Container, rest string) {
		delay, successes, more := strings.Cut(rest, ":")
		c.ReadinessProbe = probe(3)
		if c.ReadinessProbe.InitialDelaySeconds = a.wholeSeconds(delay); more {
			c.ReadinessProbe.SuccessThreshold = int32(a.toNumber(successes))
		}
	})
}

// wholeSeconds parses a duration. An empty text is 0.
func (a *args) wholeSeconds(word string) int32 {
	if word == "" {
		return 0
	}
	return int32(a.toDuration(word) / time.Second)
}

func (a *args) hooks(pod *v1.Pod) {
	nap := func(rest string) *v1.LifecycleHandler {
		if rest == hookFails || rest == hookPasses {
			return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{rest}}}
		}
		d := a.toDuration(rest)
		return &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: int64(d / time.Second)}}
	}
	lifecycle := func(c *v1.Container) *v1.Lifecycle {
		if c.Lifecycle == nil {
			c.Lifecycle = &v1.Lifecycle{}
		}
		return c.Lifecycle
	}
	a.of(pod, "prestop", func(c *v1.Container, rest string) { lifecycle(c).PreStop = nap(rest) })
	a.of(pod, "poststart", func(c *v1.Container, rest string) { lifecycle(c).PostStart = nap(rest) })
}
