// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package walls

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// needed are the system calls of a thread that starts a process, and of the Go runtime on that
// thread. A filter is set up before the start, and so has to allow these calls.
var needed = []string{
	"clone", "close", "dup3", "execve", "exit", "fcntl", "futex", "getpid", "gettid", "madvise", "mmap", "munmap",
	"pipe2", "prctl", "read", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "setsid", "sigaltstack", "tgkill", "write",
}

// actions are the results of a filter, by the names of profiles.
var actions = map[specs.LinuxSeccompAction]uint32{
	specs.ActAllow: unix.SECCOMP_RET_ALLOW, specs.ActLog: unix.SECCOMP_RET_LOG, specs.ActErrno: unix.SECCOMP_RET_ERRNO,
	specs.ActTrap: unix.SECCOMP_RET_TRAP, specs.ActKill: unix.SECCOMP_RET_KILL_THREAD,
	specs.ActKillThread: unix.SECCOMP_RET_KILL_THREAD, specs.ActKillProcess: unix.SECCOMP_RET_KILL_PROCESS,
}

// DefaultFilter returns the filter of the profile RuntimeDefault: the default list of moby for a
// container with these capabilities.
func DefaultFilter(caps []string) ([]byte, error) {
	p, err := seccomp.GetDefaultProfile(withCapabilities(caps))
	if err != nil {
		return nil, err
	}
	return compile(p)
}

// LocalFilter returns the filter of a profile in JSON, as containerd and CRI-O read it.
func LocalFilter(profile []byte, caps []string) ([]byte, error) {
	p, err := seccomp.LoadProfile(string(profile), withCapabilities(caps))
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, errors.New("the profile is empty")
	}
	return compile(p)
}

func withCapabilities(caps []string) *specs.Spec {
	return &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: caps}}}
}

// rule is a profile's decision about a system call, if all conditions are true.
type rule struct {
	conditions []specs.LinuxSeccompArg
	result     uint32
}

// numbers returns the numbers of system calls by name.
func numbers() map[string]uint32 {
	fields := strings.Fields(callNumbers)
	out := make(map[string]uint32, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		n, _ := strconv.ParseUint(fields[i+1], 10, 32) // TestCallNumbers
		out[fields[i]] = uint32(n)
	}
	return out
}

// compile turns a profile into a program for the kernel. Names that this architecture does not have
// are ignored, as every runtime does.
func compile(p *specs.LinuxSeccomp) ([]byte, error) {
	if p.ListenerPath != "" || len(p.Flags) > 0 {
		return nil, errors.New("listenerPath and flags are not supported")
	}
	fallback, err := result(p.DefaultAction, p.DefaultErrnoRet)
	if err != nil {
		return nil, fmt.Errorf("defaultAction: %w", err)
	}
	calls, rules := numbers(), map[uint32][]rule{}
	for i, s := range p.Syscalls {
		value, err := result(s.Action, s.ErrnoRet)
		if err != nil {
			return nil, fmt.Errorf("syscalls[%d]: %w", i, err)
		}
		for _, name := range s.Names {
			if n, ok := calls[name]; ok {
				rules[n] = append(rules[n], rule{s.Args, value})
			}
		}
	}
	if missing := missing(calls, rules, fallback); len(missing) > 0 {
		return nil, fmt.Errorf("the profile has to allow the system calls that start a process: %s", strings.Join(missing, ", "))
	}
	code, err := assemble(rules, fallback, slices.Max(slices.Collect(maps.Values(calls))))
	if err != nil {
		return nil, err
	}
	const most = 4096 // BPF_MAXINSNS
	if len(code) > most {
		return nil, fmt.Errorf("the profile takes %d instructions, the kernel at most %d", len(code), most)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(&code[0])), len(code)*int(unsafe.Sizeof(code[0])))
	return slices.Clone(raw), nil
}

// result returns the value with which a program ends.
func result(action specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	value, ok := actions[action]
	if !ok {
		return 0, fmt.Errorf("action %q is not supported", action)
	}
	if action != specs.ActErrno {
		return value, nil
	}
	code := uint(unix.EPERM)
	if errno != nil {
		code = *errno
	}
	return value | uint32(min(code, 4095)), nil
}

// missing returns the needed system calls that no rule allows.
func missing(calls map[string]uint32, rules map[uint32][]rule, fallback uint32) (names []string) {
	allows := func(result uint32) bool { return result == unix.SECCOMP_RET_ALLOW || result == unix.SECCOMP_RET_LOG }
	for _, name := range needed {
		n, ok := calls[name]
		if !ok {
			continue // arm has mmap2
		}
		given := rules[n]
		if len(given) == 0 && allows(fallback) || slices.ContainsFunc(given, func(r rule) bool { return allows(r.result) }) {
			continue
		}
		names = append(names, name)
	}
	return names
}

// Instructions. The argument of a jump is the number of skipped instructions.
func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | test, K: k, Jt: yes, Jf: no}
}

func end(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

// Offsets in the kernel's description of a system call.
const (
	atNumber, atArchitecture, atArguments = 0, 4, 16

	x32 = 0x40000000 // the bit of the x32 ABI on amd64
)

// assemble returns the program. Calls of another architecture get the fallback. Numbers after the
// last known call get ENOSYS, so that libraries try an older call.
func assemble(rules map[uint32][]rule, fallback, last uint32) ([]unix.SockFilter, error) {
	unknown := fallback
	if fallback&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_ERRNO {
		unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	}
	foreign := unknown
	if foreign == unix.SECCOMP_RET_ALLOW || foreign == unix.SECCOMP_RET_LOG {
		foreign = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS) // rules for this ABI do not bind another
	}
	code := []unix.SockFilter{
		load(atArchitecture), jump(unix.BPF_JEQ, architecture, 1, 0), end(foreign),
		load(atNumber),
		jump(unix.BPF_JGE, x32, 0, 1), end(foreign),
		jump(unix.BPF_JGT, last, 0, 1), end(unknown),
	}
	plain := map[uint32]uint32{}
	for _, n := range slices.Sorted(maps.Keys(rules)) {
		given := rules[n]
		if len(given[0].conditions) == 0 {
			plain[n] = given[0].result
			continue
		}
		block, err := decide(given, fallback)
		if err != nil {
			return nil, fmt.Errorf("system call %d: %w", n, err)
		}
		skip := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(block))}
		code = append(append(code, jump(unix.BPF_JEQ, n, 1, 0), skip), block...)
	}
	for _, r := range ranges(plain) {
		code = append(code,
			jump(unix.BPF_JGE, r.first, 1, 0), end(fallback), // ranges ascend
			jump(unix.BPF_JGT, r.last, 1, 0), end(r.result))
	}
	return append(code, end(fallback)), nil
}

// decide returns the instructions for the rules of one call, which always end. The first rule whose
// conditions are all true decides.
func decide(given []rule, fallback uint32) (code []unix.SockFilter, err error) {
	for _, r := range given {
		var block []unix.SockFilter
		for _, c := range r.conditions {
			one, err := condition(c)
			if err != nil {
				return nil, err
			}
			block = append(block, one...)
		}
		block = append(block, end(r.result))
		if len(block) >= onFalse {
			return nil, errors.New("too many conditions")
		}
		for i := range block { // the targets of jumps are known now
			if block[i].Jt == onFalse {
				block[i].Jt = uint8(len(block) - i - 1)
			}
			if block[i].Jf == onFalse {
				block[i].Jf = uint8(len(block) - i - 1)
			}
		}
		code = append(code, block...)
	}
	return append(code, end(fallback)), nil
}

// onFalse stands for a jump to the next rule, until its distance is known.
const onFalse = 255

// condition returns instructions that continue after their end if the condition is true.
func condition(c specs.LinuxSeccompArg) ([]unix.SockFilter, error) {
	if c.Index > 5 {
		return nil, fmt.Errorf("argument %d does not exist", c.Index)
	}
	low := uint32(atArguments + 8*c.Index) // all known architectures are little-endian
	high := low + 4
	hi, lo := uint32(c.Value>>32), uint32(c.Value)
	jeq, jgt, jge := uint16(unix.BPF_JEQ), uint16(unix.BPF_JGT), uint16(unix.BPF_JGE)
	// ordered compares the high words, and the low words if the high words are equal.
	ordered := func(test uint16, greater, less, yes, no uint8) []unix.SockFilter {
		return []unix.SockFilter{
			load(high), jump(jgt, hi, greater, 0), jump(jeq, hi, 0, less),
			load(low), jump(test, lo, yes, no),
		}
	}
	switch c.Op {
	case specs.OpEqualTo:
		return []unix.SockFilter{load(high), jump(jeq, hi, 0, onFalse), load(low), jump(jeq, lo, 0, onFalse)}, nil
	case specs.OpNotEqual:
		return []unix.SockFilter{load(high), jump(jeq, hi, 0, 2), load(low), jump(jeq, lo, onFalse, 0)}, nil
	case specs.OpGreaterThan:
		return ordered(jgt, 3, onFalse, 0, onFalse), nil
	case specs.OpGreaterEqual:
		return ordered(jge, 3, onFalse, 0, onFalse), nil
	case specs.OpLessThan:
		return ordered(jge, onFalse, 2, onFalse, 0), nil
	case specs.OpLessEqual:
		return ordered(jgt, onFalse, 2, onFalse, 0), nil
	case specs.OpMaskedEqual:
		want := c.ValueTwo
		and := func(mask uint32) unix.SockFilter {
			return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: mask}
		}
		return []unix.SockFilter{
			load(high), and(hi), jump(jeq, uint32(want>>32), 0, onFalse),
			load(low), and(lo), jump(jeq, uint32(want), 0, onFalse),
		}, nil
	}
	return nil, fmt.Errorf("operator %q is not supported", c.Op)
}

// span is a range of numbers with the same result.
type span struct{ first, last, result uint32 }

// ranges returns the numbers in ascending ranges.
func ranges(plain map[uint32]uint32) (out []span) {
	for n, value := range plain {
		out = append(out, span{n, n, value})
	}
	slices.SortFunc(out, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	merged := out[:0]
	for _, s := range out {
		if n := len(merged); n > 0 && merged[n-1].last+1 == s.first && merged[n-1].result == s.result {
			merged[n-1].last = s.last
			continue
		}
		merged = append(merged, s)
	}
	return merged
}
