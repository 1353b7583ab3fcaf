// SPDX-License-Identifier: Apache-2.0

//go:build !nodevices

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/checkpoint"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/deviceplugin"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/devices/podresources"
	"github.com/keelson-dev/keelson/examples/nodeagent/node/feature"
	"github.com/keelson-dev/keelson/podconfig/file/fsnotify"
)

// deviceFlags are the flags of device plug-ins.
type deviceFlags struct {
	dir     string // empty: no device plug-ins
	patient time.Duration
	isAsked bool // by flag, not by default
}

func (d *deviceFlags) register(set *pflag.FlagSet) {
	set.StringVar(&d.dir, "device-plugin-dir", "", "folder of kubelet.sock, where device plug-ins register, or none; ROOT-DIR/pod-resources/kubelet.sock lists the devices of pods (default ROOT-DIR/device-plugins with --kubeconfig; else none)")
	set.DurationVar(&d.patient, "device-plugin-patience", devices.DefaultPatience, "time after the end of a device plug-in during which pods wait for the next one; then its resource is forgotten, and pods with the resource are refused")
}

// complete sets the default of the folder. f.root is known.
func (d *deviceFlags) complete(f *flags, set *pflag.FlagSet) error {
	d.isAsked = set.Changed("device-plugin-dir")
	switch {
	case d.patient <= 0:
		return fmt.Errorf("--device-plugin-patience %s: want more than 0", d.patient)
	case d.dir == "none":
		d.dir = ""
	case !d.isAsked && f.kubeconfig != "" && !f.once.on:
		d.dir = filepath.Join(f.root, "device-plugins")
	case d.dir != "":
		var err error
		if d.dir, err = filepath.Abs(d.dir); err != nil {
			return fmt.Errorf("--device-plugin-dir: %w", err)
		}
	}
	return nil
}

// deviceManager gives devices of plug-ins to pods. Without a folder for plug-ins, its fields except
// changed are nil.
type deviceManager struct {
	manager *devices.Manager
	plugins *deviceplugin.Server
	watcher *deviceplugin.Watcher
	lister  *podresources.Server
	isNew   bool          // no earlier agent has recorded devices
	host    *feature.Host // set by features
	changed func()        // called after a change of the node's devices, by the agent's Run
}

// newDevices returns the devices of this node. Its sockets exist from now on.
func newDevices(f flags, numbers *metrics, log *zap.Logger) (*deviceManager, error) {
	if f.devices.dir == "" {
		return &deviceManager{}, nil
	}
	d, err := listenDevices(f, numbers.devices(), log)
	switch {
	case err == nil:
		return d, nil
	case f.devices.isAsked:
		return nil, fmt.Errorf("--device-plugin-dir: %w", err)
	}
	log.Warn("no device plug-in can register: see --device-plugin-dir", zap.Error(err))
	return &deviceManager{}, nil
}

func listenDevices(f flags, numbers deviceMetrics, log *zap.Logger) (*deviceManager, error) {
	_, err := os.Stat(filepath.Join(f.devices.dir, checkpoint.FileName))
	d := &deviceManager{changed: func() {}, isNew: errors.Is(err, fs.ErrNotExist)}
	hooks := devices.Hooks{Changed: func() { d.changed() }, Allocated: numbers.allocated}
	if d.manager, err = devices.New(devices.Options{Dir: f.devices.dir, Patience: f.devices.patient, Hooks: hooks, Logger: log}); err != nil {
		return nil, err
	}
	if d.watcher, err = deviceplugin.NewWatcher(filepath.Join(f.root, "plugins_registry"), deviceplugin.WatcherOptions{
		Hinter: fsnotify.Hinter{}, Handlers: map[string]deviceplugin.Handler{deviceplugin.Type: pluginHandler{d}}, Logger: log,
	}); err != nil {
		return nil, err
	}
	if d.plugins, err = deviceplugin.Listen(f.devices.dir, deviceplugin.Options{Follow: d.manager.Follow, Registered: numbers.registered, Logger: log}); err != nil {
		return nil, err
	}
	pods := func() []*v1.Pod { return d.host.ActivePods() }
	if d.lister, err = podresources.Listen(filepath.Join(f.root, "pod-resources", "kubelet.sock"), podresources.Options{
		Pods: pods, Devices: d.manager, Called: numbers.called,
	}); err != nil {
		ended, end := context.WithCancel(context.Background())
		end()
		return nil, errors.Join(err, d.plugins.Serve(ended)) // closes the socket, on which a plug-in would wait
	}
	return d, nil
}

// pluginHandler passes plug-ins of the watcher to the server, which is made after the watcher.
type pluginHandler struct{ *deviceManager }

// Validate implements deviceplugin.Handler.
func (h pluginHandler) Validate(name string, versions []string) error {
	return h.plugins.Validate(name, versions)
}

// Serves implements deviceplugin.Handler.
func (h pluginHandler) Serves(ctx context.Context, name, socket string, isReady func()) error {
	return h.plugins.Serves(ctx, name, socket, isReady)
}

// features returns the features of node.Options. The sockets are served by the agent's Run, after the
// checkpoint has been read.
func (d *deviceManager) features(h *feature.Host) []feature.Feature {
	if d.manager == nil {
		return nil
	}
	d.host = h
	return []feature.Feature{
		d.manager.Feature(h),
		{Name: "device-plugins", Run: d.plugins.Serve},
		{Name: "plugin-watcher", Run: d.watcher.Run},
		{Name: "pod-resources", Run: d.lister.Serve},
	}
}

// resources adds the devices to the resources of the node.
func (d *deviceManager) resources(capacity, allocatable v1.ResourceList) (v1.ResourceList, v1.ResourceList) {
	if d.manager == nil {
		return capacity, allocatable
	}
	all, free := d.manager.Resources()
	return merged(capacity, all), merged(allocatable, free)
}

// merged returns a list with the resources of both lists.
func merged(a, b v1.ResourceList) v1.ResourceList {
	all := v1.ResourceList{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
