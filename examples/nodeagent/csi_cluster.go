// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver && !nocsi

package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/keelson-dev/keelson/internal/kubeclient"
	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/volumeapi"
)

// joinStorage adds the API server's part of CSI volumes: CSIDriver objects, attachments, and for a
// registered node the CSINode object.
func (m *membership) joinStorage(f flags, client *kubeclient.Client, node *volumeapi.Node, log *zap.Logger) error {
	storage := volumeapi.FromStorage(client)
	drivers, err := volumeapi.NewDrivers(volumeapi.DriversOptions{Client: storage, Logger: log})
	if err != nil {
		return err
	}
	attachments, err := volumeapi.NewAttachments(volumeapi.AttachmentsOptions{Client: storage, NodeName: types.NodeName(f.node)})
	if err != nil {
		return err
	}
	m.storage = clusterStorage{drivers: drivers, attachments: attachments}
	m.cluster.Attachments = node
	m.cluster.Claims = informedClaims{drivers, m.cluster.Claims}
	m.run = together(m.run, drivers.Run, node.Run)
	if !f.register {
		return nil
	}
	published, err := volumeapi.NewCSINode(volumeapi.CSINodeOptions{
		Client: storage, Nodes: volumeapi.FromCore(client), NodeName: types.NodeName(f.node), Logger: log,
		Drivers: slices.Sorted(maps.Keys(f.csiSockets)),
		Info: func(ctx context.Context, driver string) (volumeapi.DriverInfo, error) {
			info, err := m.storage.plugin.Info(ctx, driver)
			return volumeapi.DriverInfo(info), err
		},
	})
	if err != nil {
		return err
	}
	m.run = together(m.run, published.Run)
	return nil
}

// driversPatience is how long the resolution of a claim waits for CSIDriver objects. It is far
// below the time that a pod waits for volumes. After a timeout the resolution is retried.
const driversPatience = 2 * time.Second

// informedClaims resolves a claim only after the CSIDriver objects are known, because they tell
// whether a volume is attached.
type informedClaims struct {
	drivers *volumeapi.Drivers
	claims  volumemanager.Claims
}

// Resolve implements volumemanager.Claims.
func (c informedClaims) Resolve(ctx context.Context, pod *v1.Pod, volume v1.Volume) (volumemanager.Spec, error) {
	waiting, cancel := context.WithTimeout(ctx, driversPatience)
	defer cancel()
	if err := c.drivers.Await(waiting); err != nil {
		return volumemanager.Spec{}, volumemanager.Transient(err)
	}
	return c.claims.Resolve(ctx, pod, volume)
}
