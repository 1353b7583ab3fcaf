// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/keelson-dev/keelson/internal/soak"
)

// checkConfig reads the ConfigMap as a careful program does: it resolves the exchanged link once
// and reads all files behind the target. If the target disappears meanwhile, checkConfig tries the
// new target.
func (w *witness) checkConfig() {
	if w.config == "" {
		return
	}
	link := filepath.Join(w.config, "..data")
	for range 3 {
		target, err := os.Readlink(link)
		if err != nil {
			w.say(soak.ConfigTorn, 0, err.Error())
			w.config = ""
			return
		}
		version, problem := readConfig(filepath.Join(w.config, target))
		if now, err := os.Readlink(link); problem != nil && err == nil && now != target && errors.Is(problem, fs.ErrNotExist) {
			continue
		}
		switch {
		case problem != nil:
			w.say(soak.ConfigTorn, version, problem.Error())
			w.config = ""
		case version < w.version:
			w.say(soak.ConfigOlder, version, strconv.Itoa(w.version))
		case version > w.version:
			w.say(soak.Saw, version, "")
		}
		w.version = max(w.version, version)
		return
	}
}

var errSum = errors.New("the payload is not what its sum says")

func readConfig(dir string) (version int, err error) {
	parts := make(map[string]string)
	for _, name := range []string{"version", "payload", "sum"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		parts[name] = string(text)
	}
	sum := sha256.Sum256([]byte(parts["version"] + parts["payload"]))
	if hex.EncodeToString(sum[:]) != parts["sum"] {
		return 0, errSum
	}
	return strconv.Atoi(parts["version"])
}
