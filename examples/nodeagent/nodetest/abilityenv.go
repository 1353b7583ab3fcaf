// SPDX-License-Identifier: Apache-2.0

package nodetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Variables of regular containers from keys of a ConfigMap. The keys are added and removed.

func environment() ability {
	return ability{
		judge:    (*peace).environs,
		steps:    []step{{2, func(g *generator) { g.during("key extra", "key extra "+pick(g, "1", "2")) }}},
		peaceful: []step{{3, (*generator).key}},
		fields: func(g *generator, _ string) string {
			return pick(g, "", "", "", " env=key", " env=extra", " env=key,extra", " env=extra?", " env=key,extra?")
		},
	}
}

// key changes a key of the ConfigMap, or removes it.
func (g *generator) key() { g.say(pick(g, "key extra 1", "key extra 2", "key extra", "key key 3")) }

// configName is the name of every node's ConfigMap.
const configName = "config"

// KeySet is a change of a node's ConfigMap.
type KeySet struct {
	At    time.Duration
	Key   string
	Value string
	There bool // false: the key was removed
}

// Made is the creation of a container.
type Made struct {
	At  time.Duration
	UID types.UID
	ID  string
	Env map[string]string
}

func readKey(a *args) action {
	key, values := a.next("KEY"), a.rest()
	return func(p *player) error {
		p.setKey(key, strings.Join(values, " "), len(values) > 0)
		return nil
	}
}

func (p *player) setKey(key, value string, there bool) {
	delete(p.keys, key)
	if there {
		p.keys[key] = value
	}
	p.node.history.setKey(key, value, there)
	data := make(map[string]string)
	for k, v := range p.keys {
		data[k] = v
	}
	p.store.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: configName}, Data: data})
}

// environ takes the keys for variables of the pod's regular containers. A key with "?" is optional.
func (a *args) environ(pod *v1.Pod) {
	word, ok := a.option("env")
	if !ok {
		return
	}
	for name := range strings.SplitSeq(word, ",") {
		key, optional := strings.CutSuffix(name, "?")
		from := &v1.ConfigMapKeySelector{LocalObjectReference: v1.LocalObjectReference{Name: configName}, Key: key, Optional: &optional}
		for i := range pod.Spec.Containers {
			pod.Spec.Containers[i].Env = append(pod.Spec.Containers[i].Env, v1.EnvVar{Name: key, ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: from}})
		}
	}
}

// keyAt returns the value of a key at some time, after the commands of the same instant.
func (p *peace) keyAt(key string, at time.Duration) (value string, there bool) {
	for _, k := range p.h.Keys {
		if k.Key == key && k.At <= at {
			value, there = k.Value, k.There
		}
	}
	return value, there
}

// environs judges that each container has the variables of its pod, with the values at its
// creation.
func (p *peace) environs() {
	for _, made := range p.h.Made {
		i := slices.IndexFunc(p.runs, func(r *run) bool { return r.id == made.ID })
		pod := p.manifest(made.UID, made.At)
		if i < 0 || pod == nil {
			continue
		}
		for _, c := range allContainers(pod) {
			if c.Name != p.runs[i].name || c.Image != p.runs[i].image {
				continue
			}
			for _, e := range c.Env {
				has, is := made.Env[e.Name]
				want, there := p.keyAt(e.ValueFrom.ConfigMapKeyRef.Key, made.At)
				before, was := p.keyAt(e.ValueFrom.ConfigMapKeyRef.Key, made.At-1)
				if (is != there || has != want) && (is != was || has != before) {
					p.violate(made.At, "%s (%s/%s) has variable %s: %t, %q, and its key: %t, %q", made.ID, made.UID, c.Name, e.Name, is, has, there, want)
				}
			}
		}
	}
}

// keysLacking returns the times in which a required key of a container was missing.
func (p *peace) keysLacking(c *v1.Container) (all []lack) {
	for _, e := range c.Env {
		from := e.ValueFrom.ConfigMapKeyRef
		if *from.Optional {
			continue
		}
		all = append(all, lack{from: 0, to: forever, late: retried})
		for _, k := range p.h.Keys {
			if k.Key != from.Key {
				continue
			}
			if last := &all[len(all)-1]; k.There && last.to == forever {
				last.to = k.At
			} else if !k.There && last.to < forever {
				all = append(all, lack{from: k.At, to: forever, late: retried})
			}
		}
	}
	return all
}

// missesKey checks that the status of a container with a missing key names the key.
func (p *peace) missesKey(c *v1.Container, shown *v1.ContainerStatus, since, now time.Duration) error {
	if len(p.imagesLacking(c)) > 0 {
		return nil // it may say that instead
	}
	for _, l := range p.keysLacking(c) {
		if l.from+retried < now && since+retried < now && l.to > now && (shown.State.Waiting == nil || shown.State.Waiting.Reason != "CreateContainerConfigError") {
			return fmt.Errorf("container %s lacks a variable, and is published as %+v", c.Name, shown.State)
		}
	}
	return nil
}
