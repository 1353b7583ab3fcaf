// SPDX-License-Identifier: Apache-2.0

package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi"
	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
	"github.com/keelson-dev/keelson/volumemanager/plugins/mount"
)

func Example() {
	dir, _ := os.MkdirTemp("", "csi")
	defer os.RemoveAll(dir)
	driver, err := csitest.New(csitest.Options{Dir: dir, Socket: filepath.Join(dir, "csi.sock"), Mounter: mount.None{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { _ = driver.Run(ctx) })
	<-driver.Listening()

	plugin, err := csi.New(csi.Options{Socket: func(string) string { return filepath.Join(dir, "csi.sock") }})
	if err != nil {
		fmt.Println(err)
		return
	}
	place := volumemanager.Place{Root: dir, PodUID: "uid", Plugin: csi.Name, Inner: "scratch"}
	m := volumemanager.Mount{Place: place, Spec: inline(), Pod: &v1.Pod{}}
	_, err = plugin.SetUp(ctx, m) // a volumemanager.Manager does this
	fmt.Println(err)
	fmt.Println(plugin.TearDown(ctx, volumemanager.Unmount{Place: place, Spec: m.Spec}))
	fmt.Println(driver.Methods())
	// Output:
	// <nil>
	// <nil>
	// [NodePublishVolume NodeUnpublishVolume]
}
