// SPDX-License-Identifier: Apache-2.0

//go:build !nocsi

package main

import (
	"cmp"
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/projected"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

// clusterStorage holds the API server's data about CSI drivers and volumes. All fields are nil
// without --csi-sockets.
type clusterStorage struct {
	drivers     csi.Drivers
	attachments csi.Attachments
	plugin      *csi.Plugin // set by newCSI
}

// newCSI returns the plugin for the drivers of --csi-sockets, or no plugin without drivers. tokens
// is called when a volume needs a token, not earlier.
func newCSI(f flags, secrets secret.Source, member *membership, tokens func() tokenMaker) ([]volumemanager.Plugin, error) {
	if len(f.csiSockets) == 0 {
		return nil, nil
	}
	opts := csi.Options{
		Socket:   func(driver string) string { return f.csiSockets[driver] },
		Secrets:  secrets,
		NodeName: f.node,
	}
	if member != nil {
		opts.Drivers, opts.Attachments, opts.Tokens = member.storage.drivers, member.storage.attachments, driverTokens(tokens)
	}
	plugin, err := csi.New(opts)
	if err != nil {
		return nil, err
	}
	if member != nil {
		member.storage.plugin = plugin
	}
	return []volumemanager.Plugin{plugin}, nil
}

// driverTokens requests tokens for CSI drivers from the agent.
type driverTokens func() tokenMaker

// Token implements csi.Tokens.
func (d driverTokens) Token(ctx context.Context, pod *v1.Pod, audience string, seconds *int64) (csi.Token, error) {
	r := projected.TokenRequest{Namespace: pod.Namespace, ServiceAccount: cmp.Or(pod.Spec.ServiceAccountName, "default"), Pod: pod.Name, PodUID: pod.UID, Audience: audience}
	if seconds != nil {
		r.ExpirationSeconds = *seconds
	}
	made, err := d().Token(ctx, r)
	return csi.Token{Value: made.Value, Expires: made.Expires}, err
}

var _ tokenMaker = (*node.Agent)(nil)
