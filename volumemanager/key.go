// SPDX-License-Identifier: Apache-2.0

package volumemanager

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UniqueVolumeName returns the name of a volume on this node in the kubelet's format (1.36), as in
// node.status.volumesInUse: "<plugin>/<id>" for a volume shared by pods, else "<plugin>/<pod
// UID>-<inner name>". So two pods never have the same name for an unshared volume.
func UniqueVolumeName(plugin Plugin, uid types.UID, spec Spec) (v1.UniqueVolumeName, error) {
	if shared, ok := plugin.(Shared); ok {
		id, err := shared.VolumeID(spec)
		if err != nil {
			return "", fmt.Errorf("name volume %s: %w", spec.InnerName(), err)
		}
		if id != "" {
			return v1.UniqueVolumeName(plugin.Name() + "/" + id), nil
		}
	}
	return privateName(plugin.Name(), uid, spec.InnerName()), nil
}

func privateName(plugin string, uid types.UID, inner string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(plugin + "/" + string(uid) + "-" + inner)
}

// SplitUniqueVolumeName splits name into the plugin's name (the first two elements) and the rest.
func SplitUniqueVolumeName(name v1.UniqueVolumeName) (plugin, id string, err error) {
	parts := strings.SplitN(string(name), "/", 3)
	if len(parts) < 3 {
		return "", "", fmt.Errorf("unique volume name %q has no plugin with a prefix", name)
	}
	return parts[0] + "/" + parts[1], parts[2], nil
}

// pluginFor returns the plugin that supports spec. No plugin or several plugins are an error.
func pluginFor(plugins []Plugin, spec Spec) (Plugin, error) {
	var found []Plugin
	var names []string
	for _, p := range plugins {
		if p.Supports(spec) {
			found = append(found, p)
			names = append(names, p.Name())
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, Terminal(fmt.Errorf("volume %s: %w", spec.InnerName(), ErrNoPlugin))
	}
	return nil, Terminal(fmt.Errorf("volume %s: %w: all of %s support it", spec.InnerName(), ErrNoPlugin, strings.Join(names, ", ")))
}

// pluginNamed returns the plugin called name.
func pluginNamed(plugins []Plugin, name string) (Plugin, bool) {
	for _, p := range plugins {
		if p.Name() == name {
			return p, true
		}
	}
	return nil, false
}
