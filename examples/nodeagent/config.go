// SPDX-License-Identifier: Apache-2.0

//go:build !noapiserver

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/keelson-dev/keelson/examples/nodeagent/nodeconfig"
)

// configFlags name the kubelet's configuration files.
type configFlags struct {
	file    string
	dropIns string

	notices []nodeconfig.Notice // set by apply
}

func (c *configFlags) register(set *pflag.FlagSet) {
	set.StringVar(&c.file, "config", "", "the kubelet's configuration file (KubeletConfiguration v1beta1): its fields are defaults of these flags; a field that is not supported is an error")
	set.StringVar(&c.dropIns, "config-dir", "", "folder with files *.conf of the same kind, which are merged into --config in the order of their paths")
}

// apply sets the flags that the files name and the command line does not.
func (c *configFlags) apply(set *pflag.FlagSet) error {
	if c.file == "" && c.dropIns == "" {
		return nil
	}
	files, err := nodeconfig.Read(c.file, c.dropIns)
	if err != nil {
		return fmt.Errorf("--config, --config-dir: %w", err)
	}
	config, err := nodeconfig.Parse(files)
	if err != nil {
		return fmt.Errorf("--config, --config-dir: %w", err)
	}
	for _, s := range config.Settings {
		if set.Changed(s.Flag) {
			continue
		}
		if strings.HasPrefix(s.Flag, "shutdown-grace-period") && !set.Changed("keep-pods") {
			_ = set.Set("keep-pods", "true") // in the kubelet the grace periods are for a machine that shuts down
		}
		if err := set.Set(s.Flag, s.Value); err != nil {
			return fmt.Errorf("--config, --config-dir: %s: %w", s.Field, err)
		}
	}
	c.notices = config.Notices
	return nil
}

// tell logs the fields that have no effect.
func (c *configFlags) tell(log *zap.Logger) {
	for _, n := range c.notices {
		message := "a field of the configuration has no effect in this agent"
		if n.Unknown {
			message = "a field of the configuration is not known"
		}
		log.Info(message, zap.String("file", n.File), zap.Int("line", n.Line), zap.String("field", n.Field))
	}
}
