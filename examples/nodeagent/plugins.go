// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/runtime"
	"github.com/keelson-dev/keelson/runtime/credentialplugin"
)

// pluginFlags are the flags of credential provider plug-ins. Names are the kubelet's.
type pluginFlags struct {
	config, dir string
}

func (p *pluginFlags) register(set *pflag.FlagSet) {
	set.StringVar(&p.config, "image-credential-provider-config", "", "with a container runtime or --images: file or folder with the CredentialProviderConfig of credential provider plug-ins, which are tried after --registry-auth-file")
	set.StringVar(&p.dir, "image-credential-provider-bin-dir", "", "folder with the programs of --image-credential-provider-config")
}

// check refuses flags that cannot take effect.
func (p *pluginFlags) check(pullsImages bool) error {
	switch {
	case p.config == "" && p.dir == "":
		return nil
	case p.config == "" || p.dir == "":
		return errors.New("--image-credential-provider-config and --image-credential-provider-bin-dir: give both of them or none")
	case !pullsImages:
		return errors.New("--image-credential-provider-config is for a container runtime or --images: the process runtime pulls no images otherwise")
	}
	return nil
}

// keyring returns the credentials of the plug-ins, nil if there are none.
func (p *pluginFlags) keyring(numbers *metrics, log *zap.Logger) (runtime.Keyring, error) {
	if p.config == "" {
		return nil, nil
	}
	providers, err := credentialplugin.Read(p.config)
	if err != nil {
		return nil, fmt.Errorf("--image-credential-provider-config: %w", err)
	}
	dir, err := filepath.Abs(p.dir)
	if err != nil {
		return nil, fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	plugins, err := credentialplugin.New(credentialplugin.Options{Dir: dir, Providers: providers, Ran: func(name string, took time.Duration, err error) {
		numbers.ranPlugin(name, took, err)
		if err != nil {
			log.Warn("an image is pulled without the credentials of a plug-in", zap.Error(err))
		}
	}})
	if err != nil {
		return nil, err
	}
	if err := plugins.Check(); err != nil {
		return nil, fmt.Errorf("--image-credential-provider-bin-dir: %w", err)
	}
	return plugins.Find, nil
}
