// SPDX-License-Identifier: Apache-2.0

//go:build !noseccomp

package walls

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// call is a system call as the kernel describes it to a filter.
type call struct {
	arch, number uint32
	args         [6]uint64
}

// run interprets a filter, as the kernel does.
func run(t *testing.T, raw []byte, c call) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[0:], c.number)
	binary.LittleEndian.PutUint32(data[4:], c.arch)
	for i, a := range c.args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc*8 < len(raw); pc++ {
		at := raw[pc*8:]
		code, jt, jf, k := binary.LittleEndian.Uint16(at), int(at[2]), int(at[3]), binary.LittleEndian.Uint32(at[4:])
		hop := func(yes bool) {
			if yes {
				pc += jt
			} else {
				pc += jf
			}
		}
		switch code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[k:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= k
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(k)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ:
			hop(acc == k)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGT:
			hop(acc > k)
		case unix.BPF_JMP | unix.BPF_K | unix.BPF_JGE:
			hop(acc >= k)
		case unix.BPF_RET | unix.BPF_K:
			return k
		default:
			t.Fatalf("instruction %d has code %#x", pc, code)
		}
	}
	t.Fatal("the program does not end")
	return 0
}

const (
	allow_ = uint32(unix.SECCOMP_RET_ALLOW)
	eperm  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	enosys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
)

func TestDefaultFilter(t *testing.T) {
	raw, err := DefaultFilter(nil)
	require.NoError(t, err)
	full, err := DefaultFilter([]string{"CAP_SYS_ADMIN"})
	require.NoError(t, err)
	calls := numbers()
	for _, tt := range []struct {
		name string
		args []uint64
		want uint32
	}{
		{"read", nil, allow_}, {"execve", nil, allow_}, {"openat2", nil, allow_},
		{"mount", nil, eperm}, {"unshare", nil, eperm}, {"setns", nil, eperm}, {"pivot_root", nil, eperm}, {"bpf", nil, eperm},
		{"keyctl", nil, eperm}, {"add_key", nil, eperm}, {"request_key", nil, eperm}, {"userfaultfd", nil, eperm},
		{"io_uring_setup", nil, eperm}, {"perf_event_open", nil, eperm}, {"init_module", nil, eperm}, {"pidfd_getfd", nil, eperm},
		{"open_by_handle_at", nil, eperm}, {"kexec_load", nil, eperm}, {"reboot", nil, eperm}, {"swapon", nil, eperm},
		{"clone", []uint64{17}, allow_}, {"clone", []uint64{unix.CLONE_NEWUSER | 17}, eperm},
		{"clone3", nil, enosys},
		{"socket", []uint64{unix.AF_UNIX}, allow_}, {"socket", []uint64{unix.AF_NETLINK}, allow_}, {"socket", []uint64{unix.AF_VSOCK}, eperm},
		{"socket", []uint64{unix.AF_ALG}, eperm},
		{"personality", []uint64{0}, allow_}, {"personality", []uint64{0x0400000}, eperm},
	} {
		c := call{arch: architecture, number: calls[tt.name]}
		copy(c.args[:], tt.args)
		assert.Equal(t, tt.want, run(t, raw, c), "%s %x", tt.name, tt.args)
	}
	assert.Equal(t, allow_, run(t, full, call{arch: architecture, number: calls["mount"]}), "with CAP_SYS_ADMIN")
	assert.Equal(t, enosys, run(t, raw, call{arch: architecture, number: 9999}), "a system call of the future")
	assert.Equal(t, enosys, run(t, raw, call{arch: unix.AUDIT_ARCH_I386, number: 4}), "another ABI")
	assert.Equal(t, enosys, run(t, raw, call{arch: architecture, number: x32 | calls["read"]}), "x32")
	t.Logf("%d instructions", len(raw)/8)
}

// TestFiltersAgainstASimpleJudge compares random profiles with a walk over their rules.
func TestFiltersAgainstASimpleJudge(t *testing.T) {
	calls := numbers()
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	operators := []specs.LinuxSeccompOperator{specs.OpNotEqual, specs.OpLessThan, specs.OpLessEqual, specs.OpEqualTo,
		specs.OpGreaterEqual, specs.OpGreaterThan, specs.OpMaskedEqual}
	values := []uint64{0, 1, 2, 1 << 31, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1 << 63, 1<<64 - 1}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		value := func() uint64 { return values[rnd.IntN(len(values))] }
		p := &specs.LinuxSeccomp{DefaultAction: specs.ActErrno, Syscalls: []specs.LinuxSyscall{{Names: needed, Action: specs.ActAllow}}}
		picked := map[string]bool{}
		for range 30 {
			name := names[rnd.IntN(len(names))]
			picked[name] = true
			s := specs.LinuxSyscall{Names: []string{name}, Action: []specs.LinuxSeccompAction{specs.ActAllow, specs.ActLog, specs.ActKill}[rnd.IntN(3)]}
			for range rnd.IntN(3) {
				s.Args = append(s.Args, specs.LinuxSeccompArg{Index: uint(rnd.IntN(6)), Op: operators[rnd.IntN(len(operators))], Value: value(), ValueTwo: value()})
			}
			p.Syscalls = append(p.Syscalls, s, s)
		}
		raw, err := compile(p)
		require.NoError(t, err)
		for name := range picked {
			for range 10 {
				c := call{arch: architecture, number: calls[name]}
				for i := range c.args {
					c.args[i] = value()
				}
				require.Equal(t, judgeSimply(p, name, c), run(t, raw, c), "seed %d: %s %x in %+v", seed, name, c.args, p.Syscalls[1:])
			}
		}
	}
}

func judgeSimply(p *specs.LinuxSeccomp, name string, c call) uint32 {
	for _, s := range p.Syscalls {
		for _, n := range s.Names {
			holds := n == name
			for _, a := range s.Args {
				v := c.args[a.Index]
				holds = holds && map[specs.LinuxSeccompOperator]bool{
					specs.OpNotEqual: v != a.Value, specs.OpLessThan: v < a.Value, specs.OpLessEqual: v <= a.Value,
					specs.OpEqualTo: v == a.Value, specs.OpGreaterEqual: v >= a.Value, specs.OpGreaterThan: v > a.Value,
					specs.OpMaskedEqual: v&a.Value == a.ValueTwo,
				}[a.Op]
			}
			if holds {
				return actions[s.Action]
			}
		}
	}
	return eperm
}

func TestProfilesThatCannotBeHadAreRefused(t *testing.T) {
	for _, tt := range []struct{ profile, want string }{
		{`{`, "profile"},
		{`{}`, "the profile is empty"},
		{`{"defaultAction": "SCMP_ACT_NOTIFY"}`, `defaultAction: action "SCMP_ACT_NOTIFY" is not supported`},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "listenerPath": "/s"}`, "listenerPath"},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "flags": ["SECCOMP_FILTER_FLAG_LOG"]}`, "flags"},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["read"], "action": "SCMP_ACT_TRACE"}]}`, "syscalls[0]"},
		{`{"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"}]}`, "start a process: clone, close"},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["execve"], "action": "SCMP_ACT_KILL"}]}`, "start a process: execve"},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["getpid"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 6, "op": "SCMP_CMP_EQ"}]}]}`, "argument 6"},
		{`{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["getpid"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "op": "SCMP_CMP_X"}]}]}`, "operator"},
	} {
		_, err := LocalFilter([]byte(tt.profile), nil)
		assert.ErrorContains(t, err, tt.want, tt.profile)
	}
}

func TestCallNumbers(t *testing.T) {
	calls := numbers()
	require.Greater(t, len(calls), 300)
	for name, want := range map[string]uint32{
		"read": unix.SYS_READ, "execve": unix.SYS_EXECVE, "landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF, "clone3": unix.SYS_CLONE3,
		"process_vm_readv": unix.SYS_PROCESS_VM_READV, "fchmodat2": unix.SYS_FCHMODAT2,
	} {
		assert.Equal(t, want, calls[name], name)
	}
	seen := map[uint32]string{}
	for name, n := range calls {
		assert.Empty(t, seen[n], fmt.Sprintf("%s has the number of another", name))
		seen[n] = name
	}
}

func BenchmarkDefaultFilter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, err := DefaultFilter(nil)
		require.NoError(b, err)
	}
}
