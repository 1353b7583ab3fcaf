// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bytes"
	"strconv"
	"time"

	"github.com/keelson-dev/keelson/internal/kernelfile"
)

// folder is the folder of a cgroup. Files that cannot be read count as empty.
type folder string

// read returns a file, in a buffer of the caller if it fits.
func (f folder) read(name string, buffer []byte) []byte {
	data, err := kernelfile.Append(buffer[:0], string(f)+"/"+name)
	if err != nil {
		return nil
	}
	return data
}

// value returns the number that is a file, and false if there is no such file.
func (f folder) value(name string) (n uint64, ok bool) {
	return kernelfile.Value(string(f) + "/" + name)
}

func (f folder) number(name string) uint64 {
	n, _ := f.value(name)
	return n
}

// counter returns a counter of a file, 0 if it is not there.
func (f folder) counter(name, key string) uint64 {
	var buffer [kernelfile.Size]byte
	for found, n, rest := nextCounter(f.read(name, buffer[:])); len(found) > 0; found, n, rest = nextCounter(rest) {
		if string(found) == key {
			return n
		}
	}
	return 0
}

// nextCounter reads the next line such as "user_usec 7". The key is empty at the end.
func nextCounter(text []byte) (key []byte, n uint64, rest []byte) {
	for len(text) > 0 {
		var line []byte
		line, text = kernelfile.Line(text)
		key, value := kernelfile.Word(line)
		if value, _ = kernelfile.Word(value); len(value) > 0 {
			return key, kernelfile.Number(value), text
		}
	}
	return nil, 0, nil
}

// nextSetting reads the next word such as "rbytes=1". The key is empty at the end.
func nextSetting(line []byte) (key, value, rest []byte) {
	word, rest := kernelfile.Word(line)
	key, value, _ = bytes.Cut(word, []byte{'='})
	return key, value, rest
}

// stall reads pressure stall information: "some avg10=0.00 avg60=0.00 avg300=0.00 total=0".
func (f folder) stall(name string) (s Stall) {
	var buffer [kernelfile.Size]byte
	for rest := f.read(name, buffer[:]); len(rest) > 0; {
		var line []byte
		line, rest = kernelfile.Line(rest)
		kind, fields := kernelfile.Word(line)
		var share Averages
		total, known := uint64(0), false
		for key, value, more := nextSetting(fields); len(key) > 0; key, value, more = nextSetting(more) {
			switch string(key) {
			case "avg10":
				share[0] = percent(value)
			case "avg60":
				share[1] = percent(value)
			case "avg300":
				share[2] = percent(value)
			case "total":
				total, known = kernelfile.Number(value), true
			}
		}
		if !known {
			continue
		}
		s.Known = true
		switch string(kind) {
		case "some":
			s.Some, s.SomeShare = micros(total), share
		case "full":
			s.All, s.AllShare = micros(total), share
		}
	}
	return s
}

func micros(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

// percent returns 0 if the kernel does not tell.
func percent(text []byte) float64 {
	share, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return 0
	}
	return share
}
