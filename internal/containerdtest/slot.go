// SPDX-License-Identifier: Apache-2.0

package containerdtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	// slotsDir is writable only for root, and empty after a boot, like the processes, mounts and
	// bridges of its slots.
	slotsDir = "/run/keelson-containerdtest"
	// maxSlots is the number of subnets of 10.88.0.0/16.
	maxSlots = 32
)

// slot is the right to use one bridge and one subnet, as long as its file is locked. The kernel
// unlocks the file when the process dies. The file contains the path of the slot's folder.
type slot struct {
	number int
	file   *os.File
}

func slotFile(dir string, number int) string { return filepath.Join(dir, strconv.Itoa(number)) }

// lockSlot takes slot number below dir. If another process or instance holds the slot, the result
// is nil without an error.
func lockSlot(dir string, number int) (*slot, error) {
	f, err := os.OpenFile(slotFile(dir, number), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, f.Close()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
	}
	return &slot{number, f}, nil
}

// takeSlot cleans up the slots of dead processes below dir, and takes the first free slot. A slot
// whose clean-up fails is not used.
func takeSlot(dir string) (*slot, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var taken *slot
	var errs []error
	for number := range maxSlots {
		if _, err := os.Stat(slotFile(dir, number)); taken != nil && err != nil {
			continue // never used
		}
		s, err := lockSlot(dir, number)
		if err == nil && s == nil {
			continue // in use
		}
		if err == nil {
			err = s.cleanUp()
		}
		if err == nil && taken == nil {
			taken = s
			continue
		}
		if s != nil {
			err = errors.Join(err, s.release())
		}
		errs = append(errs, err)
	}
	if taken == nil {
		return nil, errors.Join(append(errs, fmt.Errorf("all %d slots in %s are taken", maxSlots, dir))...)
	}
	return taken, nil
}

// own writes folder to the slot's file.
func (s *slot) own(folder string) error {
	_, err := s.file.WriteAt([]byte(folder+"\n"), 0)
	return err
}

// cleanUp kills the processes and removes the resources of the slot. Afterwards the slot owns no
// folder.
func (s *slot) cleanUp() error {
	text, err := os.ReadFile(s.file.Name())
	if err != nil {
		return err
	}
	folder := strings.TrimSpace(string(text))
	if folder == "" {
		return nil
	}
	if !filepath.IsAbs(folder) || !strings.HasPrefix(filepath.Base(folder), folderPrefix) {
		return fmt.Errorf("%s names %q, which is no folder of ours", s.file.Name(), folder)
	}
	if err := removeInstance(newLayout(folder, s.number)); err != nil {
		return err
	}
	return s.file.Truncate(0)
}

// release unlocks the slot.
func (s *slot) release() error { return s.file.Close() }
