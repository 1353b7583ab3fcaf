// SPDX-License-Identifier: Apache-2.0

package csitest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/keelson-dev/keelson/volumemanager/plugins/csi/csitest"
)

func Example() {
	dir, _ := os.MkdirTemp("", "csi")
	defer os.RemoveAll(dir)
	driver, err := csitest.New(csitest.Options{Dir: dir, Socket: filepath.Join(dir, "csi.sock")})
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

	conn, err := grpc.NewClient("unix://"+driver.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	info, err := csi.NewIdentityClient(conn).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	fmt.Println(info.GetName(), err)
	// Output: folders.csi.example.com <nil>
}

func TestOptions(t *testing.T) {
	_, err := csitest.New(csitest.Options{Dir: "relative", Socket: "/s"})
	require.ErrorContains(t, err, "Options.Dir")
	_, err = csitest.New(csitest.Options{Dir: "/d", Socket: "s"})
	require.ErrorContains(t, err, "Options.Socket")
}

func TestSecondRunIsAnError(t *testing.T) {
	dir := t.TempDir()
	d, err := csitest.New(csitest.Options{Dir: dir, Socket: filepath.Join(dir, "s")})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Run(ctx) })
	<-d.Listening()
	require.ErrorIs(t, d.Run(ctx), csitest.ErrRunning)
	cancel()
	wg.Wait()
}
