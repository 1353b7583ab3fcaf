// SPDX-License-Identifier: Apache-2.0

//go:build nocsi

package main

import (
	"errors"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/secret"
)

var errNoCSI = errors.New("--csi-sockets: this program was built without CSI drivers (tag nocsi)")

type clusterStorage struct{}

func newCSI(f flags, _ secret.Source, _ *membership, _ func() tokenMaker) ([]volumemanager.Plugin, error) {
	if len(f.csiSockets) > 0 {
		return nil, errNoCSI
	}
	return nil, nil
}
