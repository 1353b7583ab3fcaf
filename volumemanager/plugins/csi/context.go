// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/keelson-dev/keelson/volumemanager"
)

// The kubelet's keys for pod information in the volume context.
const (
	keyPodName        = "csi.storage.k8s.io/pod.name"
	keyPodNamespace   = "csi.storage.k8s.io/pod.namespace"
	keyPodUID         = "csi.storage.k8s.io/pod.uid"
	keyServiceAccount = "csi.storage.k8s.io/serviceAccount.name"
	keyEphemeral      = "csi.storage.k8s.io/ephemeral"
	keyTokens         = "csi.storage.k8s.io/serviceAccount.tokens"
)

// volumeContext returns the volume's attributes with the pod information and tokens requested by
// the driver.
func (p *Plugin) volumeContext(ctx context.Context, v volume, m volumemanager.Mount) (map[string]string, error) {
	d := p.driver(v.driver)
	if d == nil {
		return v.attributes, nil
	}
	out := maps.Clone(v.attributes)
	if out == nil {
		out = map[string]string{}
	}
	if d.PodInfoOnMount != nil && *d.PodInfoOnMount {
		out[keyPodName], out[keyPodNamespace], out[keyPodUID] = m.Pod.Name, m.Pod.Namespace, string(m.Pod.UID)
		out[keyServiceAccount] = cmp.Or(m.Pod.Spec.ServiceAccountName, "default")
		out[keyEphemeral] = strconv.FormatBool(v.inline)
	}
	if len(d.TokenRequests) == 0 {
		return out, nil
	}
	if p.options.Tokens == nil {
		return nil, volumemanager.Terminal(fmt.Errorf("driver %q wants tokens, and this agent has no source of them", v.driver))
	}
	type token struct {
		Token   string    `json:"token"`
		Expires time.Time `json:"expirationTimestamp"`
	}
	tokens := map[string]token{}
	for _, want := range d.TokenRequests {
		t, err := p.options.Tokens.Token(ctx, m.Pod, want.Audience, want.ExpirationSeconds)
		if err != nil {
			return nil, volumemanager.Transient(fmt.Errorf("token for audience %q: %w", want.Audience, err))
		}
		tokens[want.Audience] = token{t.Value, t.Expires}
	}
	text, err := json.Marshal(tokens)
	if err != nil {
		return nil, err
	}
	out[keyTokens] = string(text)
	return out, nil
}
