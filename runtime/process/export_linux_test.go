// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package process

import (
	"context"
	"errors"

	"github.com/keelson-dev/keelson/runtime"
)

// The moments at which DieAt stops a start.
const (
	DieAtFork   = iota // the processes exist
	DieAtRecord        // they are recorded
	DieAtBegin         // the program is executed, or has failed
)

// DieAt begins the start of a container and leaves it at a moment, as an agent that is killed does.
func DieAt(r *Runtime, id runtime.ContainerID, moment int) error {
	return PauseAt(r, id, moment, func() {})
}

// PauseAt is DieAt with a call of look while a start waits at DieAtRecord.
func PauseAt(r *Runtime, id runtime.ContainerID, moment int, look func()) error {
	s, in, err := r.openContainer(id)
	if err != nil {
		return err
	}
	defer s.close()
	defer in.close()
	lock, err := r.lockToStart(context.Background(), in)
	if err != nil {
		return err
	}
	defer lock.Close()
	o, _, err := r.look(in, searchNowhere)
	if err != nil {
		return err
	}
	start := birth{dir: in.dir, spec: &o.spec}
	defer start.close()
	if err := r.conceive(&start, in, lock); err != nil || moment == DieAtFork {
		return err
	}
	if err := start.record(); err != nil {
		return err
	}
	if moment == DieAtRecord {
		look()
		return nil
	}
	if start.b.Begin() == nil {
		return errors.New("the program was executed")
	}
	return nil
}
