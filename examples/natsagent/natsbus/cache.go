// SPDX-License-Identifier: Apache-2.0

package natsbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
)

// restore fills the store from the cache. A damaged cache is not used.
func (s *state) restore(path string) {
	if path == "" {
		return
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all map[string][]byte
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		s.problem("", fmt.Errorf("the cache is not used: %w", err))
		return
	}
	for key, value := range all {
		kind, _, err := parseKey(key)
		if err == nil && kind != podKeys {
			_, _, err = s.decode(key, value)
		}
		if err != nil {
			s.problem("", fmt.Errorf("the cache: %w", err))
			continue
		}
		s.entries[key] = &entry{value: value}
	}
	s.cached = s.copyObjects()
}

func (s *state) copyObjects() map[string][]byte {
	all := make(map[string][]byte, len(s.objects))
	for key, value := range s.objects {
		all[key] = value
	}
	return all
}

// save replaces the cache if an object has changed. After a power cut, the file is the old or the new
// one.
func (s *state) save(path string) error {
	if path == "" || reflect.DeepEqual(s.cached, s.objects) {
		return nil
	}
	data, err := json.Marshal(s.objects)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp*") // with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // fails after the rename
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	s.cached = s.copyObjects()
	return nil
}
