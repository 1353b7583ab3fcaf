// SPDX-License-Identifier: Apache-2.0

package credentialplugin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/internal/registry"
	"github.com/keelson-dev/keelson/runtime"
)

// Options configure Plugins.
type Options struct {
	// Dir is the absolute path of the folder with the programs. Required.
	Dir string
	// Providers are the plug-ins, as returned by Read. At least one is required.
	Providers []Provider
	// Ran is called after each run of a plug-in, with the error if there are no usable credentials.
	// Ran must not block. Defaults to nil.
	Ran func(provider string, took time.Duration, err error)
}

// Plugins runs plug-ins. Its methods are safe for concurrent use.
type Plugins struct {
	opts    Options
	plugins []*plugin
}

// New validates opts. An error names the invalid option or plug-in. New does not access the disk.
func New(opts Options) (*Plugins, error) {
	if !filepath.IsAbs(opts.Dir) {
		return nil, fmt.Errorf("credentialplugin: Options.Dir %q: want an absolute path", opts.Dir)
	}
	if len(opts.Providers) == 0 {
		return nil, errors.New("credentialplugin: Options.Providers: at least one is required")
	}
	if err := checkProviders(opts.Providers); err != nil {
		return nil, fmt.Errorf("credentialplugin: Options.Providers: %w", err)
	}
	if opts.Ran == nil {
		opts.Ran = func(string, time.Duration, error) {}
	}
	p := &Plugins{opts: opts}
	for _, provider := range opts.Providers {
		p.plugins = append(p.plugins, newPlugin(opts, provider))
	}
	return p, nil
}

// Check returns an error for each plug-in without an executable program, joined.
func (p *Plugins) Check() error {
	var errs []error
	for _, plugin := range p.plugins {
		path := filepath.Join(p.opts.Dir, plugin.provider.Name)
		switch info, err := os.Stat(path); {
		case err != nil:
			errs = append(errs, err)
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			errs = append(errs, fmt.Errorf("%s is no executable program", path))
		}
	}
	return errors.Join(errs...)
}

// Find returns the credentials of all plug-ins that match the image, in the order of the plug-ins. Of
// the credentials of a plug-in, the closest match is first. Find fits runtime.Keyring. The failure of a plug-in is reported
// to Options.Ran and is no error, because the image may be public. The only error is the cause of
// ctx.
func (p *Plugins) Find(ctx context.Context, _ *v1.Pod, image string) ([]runtime.ImageAuth, error) {
	place, ok := registry.Of(image)
	if !ok {
		return nil, nil
	}
	found := make([][]runtime.ImageAuth, len(p.plugins))
	var wg sync.WaitGroup
	for i, plugin := range p.plugins {
		if plugin.matches(place) {
			wg.Go(func() { found[i] = plugin.find(ctx, place) })
		}
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var auths []runtime.ImageAuth
	for _, some := range found {
		for _, auth := range some {
			if !slices.Contains(auths, auth) {
				auths = append(auths, auth)
			}
		}
	}
	return auths, nil
}
