// SPDX-License-Identifier: Apache-2.0

package content

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/volumemanager"
	"github.com/keelson-dev/keelson/volumemanager/plugins/internal/payload"
)

// DefaultMode is the default mode of a file. The API server sets the same default; a pod from a
// folder may lack it.
const DefaultMode = 0o644

// Defaults are the pod's defaults for the files of a volume.
type Defaults struct {
	// Mode are permissions; nil means DefaultMode.
	Mode *int32
	// User owns the files; nil means the agent's user.
	User *int64
}

// File returns a file with mode and user, or with the defaults if they are nil.
func (d Defaults) File(data []byte, mode *int32, user *int64) payload.File {
	f := payload.File{Data: data, Mode: DefaultMode, User: d.User}
	switch {
	case mode != nil:
		f.Mode = fs.FileMode(*mode) & fs.ModePerm
	case d.Mode != nil:
		f.Mode = fs.FileMode(*d.Mode) & fs.ModePerm
	}
	if user != nil {
		f.User = user
	}
	return f
}

// ConfigMap adds the files of a ConfigMap: all keys, or the keys in items. For a key in both Data
// and BinaryData, BinaryData wins.
func ConfigMap(p payload.Payload, cm *v1.ConfigMap, items []v1.KeyToPath, d Defaults, optional *bool) error {
	keys := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, text := range cm.Data {
		keys[k] = []byte(text)
	}
	maps.Copy(keys, cm.BinaryData)
	if err := choose(p, keys, items, d, optional); err != nil {
		return fmt.Errorf("configMap %s/%s: %w", cm.Namespace, cm.Name, err)
	}
	return nil
}

// Secret adds the files of a Secret: all keys, or the keys in items.
func Secret(p payload.Payload, s *v1.Secret, items []v1.KeyToPath, d Defaults, optional *bool) error {
	if err := choose(p, s.Data, items, d, optional); err != nil {
		return fmt.Errorf("secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

func choose(p payload.Payload, keys map[string][]byte, items []v1.KeyToPath, d Defaults, optional *bool) error {
	if len(items) == 0 {
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if err := p.Add(k, d.File(keys[k], nil, nil)); err != nil {
				return fmt.Errorf("key %s: %w", payload.Shown(k), err)
			}
		}
		return nil
	}
	for _, item := range items {
		data, ok := keys[item.Key]
		if !ok {
			if optional != nil && *optional {
				continue
			}
			return volumemanager.Transient(fmt.Errorf("references non-existent key %s", payload.Shown(item.Key)))
		}
		if err := p.Add(item.Path, d.File(data, item.Mode, item.User)); err != nil {
			// The mistake is in the pod's spec and therefore permanent.
			return volumemanager.Terminal(fmt.Errorf("key %s: %w", payload.Shown(item.Key), err))
		}
	}
	return nil
}
