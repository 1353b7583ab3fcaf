// SPDX-License-Identifier: Apache-2.0

package tiny

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Program is a list of system calls, with the memory of their arguments.
type Program struct {
	calls  []call
	labels []label
	memory []byte
	refs   []int // the offsets of words in memory that are Refs
}

// label is a place in this program, or an address in another one.
type label struct {
	call    int
	address uintptr
}

type call struct {
	number uintptr
	values [6]uintptr // of the arguments
	from   [6]from
	next   Next
	target Label
}

// Arg is an argument of a call: a number, or one of the functions and methods that return an Arg.
type Arg struct {
	value uintptr
	from  from
}

// from tells what the value of an argument is.
type from uint8

const (
	number  from = iota // the argument
	memory              // an offset in the program's memory, whose address is meant
	result              // the number of a call, whose result is meant
	word                // the address of the argument
	content             // an offset in the program's memory, whose word at the time of the call is meant
	pair                // the number of a call, the address of whose last argument is meant
)

// N is a number as an argument.
func N[T ~int | ~int32 | ~uint32 | ~uint64 | ~uintptr](v T) Arg { return Arg{value: uintptr(v)} }

// Load is the word at an address, at the time of the call, as an argument.
func Load(address uintptr) Arg { return Arg{address, word} }

// Label is a name for a call that is added later.
type Label int

// Label returns a new label.
func (p *Program) Label() Label { return p.Elsewhere(0) }

// Elsewhere returns a label of a step of another program in the same process.
func (p *Program) Elsewhere(address uintptr) Label {
	p.labels = append(p.labels, label{address: address})
	return Label(len(p.labels) - 1)
}

// Place makes a label the name of the next call.
func (p *Program) Place(l Label) { p.labels[l].call = len(p.calls) }

// address returns the address of a label in a program whose first step has the address at.
func (p *Program) address(l Label, at uintptr) uintptr {
	if elsewhere := p.labels[l].address; elsewhere != 0 {
		return elsewhere
	}
	return at + uintptr(p.labels[l].call)*StepSize
}

// Grow makes room for more calls, and for more bytes of their memory.
func (p *Program) Grow(calls, memory int) {
	p.calls, p.memory = slices.Grow(p.calls, calls), slices.Grow(p.memory, memory)
}

// Len returns the number of calls.
func (p *Program) Len() int { return len(p.calls) }

// Go continues with the call of a label. The call that Go adds has no effect.
func (p *Program) Go(to Label) { p.Call(Jump, to, unix.SYS_GETPID) }

// Call adds a call and returns its result. Calls with Follow have no use for the target.
func (p *Program) Call(next Next, target Label, number uintptr, args ...Arg) Arg {
	c := call{number: number, next: next, target: target}
	for i, a := range args {
		c.values[i], c.from[i] = a.value, a.from
	}
	p.calls = append(p.calls, c)
	return Arg{uintptr(len(p.calls) - 1), result}
}

// Put returns the address of a copy of some memory.
func (p *Program) Put(raw []byte) Arg {
	p.memory = append(p.memory, make([]byte, -len(p.memory)&7)...)
	at := len(p.memory)
	p.memory = append(p.memory, raw...)
	return Arg{uintptr(at), memory}
}

// Plus is an address behind an address that Put returns.
func (a Arg) Plus(offset int) Arg { return Arg{a.value + uintptr(offset), a.from} }

// Word is the word at an address that Put returns, at the time of the call.
func (a Arg) Word() Arg { return Arg{a.value, content} }

// Text returns the address of a string for the kernel. A NUL byte ends the string.
func (p *Program) Text(v string) Arg { return p.Put(append([]byte(v), 0)) }

// List returns the address of a list of strings.
func (p *Program) List(v []string) Arg {
	at := p.Put(make([]byte, (len(v)+1)*wordSize))
	for i, e := range v {
		p.Point(at, i*wordSize, p.Text(e))
	}
	return at
}

// Point writes the address of some memory into other memory.
func (p *Program) Point(at Arg, offset int, to Arg) {
	o := int(at.value) + offset
	appendWord(p.memory[o:o:o+wordSize], to.value) // until Assemble
	p.refs = append(p.refs, o)
}

// Values returns the address of a copy of values without pointers.
func Values[T any](p *Program, v []T) Arg {
	return p.Put(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(*new(T)))))
}

// Pair returns the address of two words: the sixth argument of a call, which the kernel may not
// need, and the result of the call.
func (a Arg) Pair() Arg { return Arg{a.value, pair} }

// Size returns the size of the program's memory.
func (p *Program) Size() int { return len(p.memory) }

// Assemble fills the steps of a program, for the address at, and its memory, for the address
// memoryAt. They have the lengths Len and Size.
func (p *Program) Assemble(steps []Step, at uintptr, raw []byte, memoryAt uintptr) {
	for i, c := range p.calls {
		s := &steps[i]
		s.Number, s.Next = c.number, c.next
		if c.next != Follow {
			s.Target = p.address(c.target, at)
		}
		for j, v := range c.values {
			switch c.from[j] {
			case number:
				s.Args[j] = v
			case memory:
				s.Args[j] = memoryAt + v
			case result:
				s.Args[j], s.Loads = at+v*StepSize+resultOffset, s.Loads|1<<j
			case content:
				s.Args[j], s.Loads = memoryAt+v, s.Loads|1<<j
			case word:
				s.Args[j], s.Loads = v, s.Loads|1<<j
			case pair:
				s.Args[j] = at + v*StepSize + resultOffset - uintptr(wordSize)
			}
		}
	}
	copy(raw, p.memory)
	for _, o := range p.refs {
		appendWord(raw[o:o:o+wordSize], getWord(raw[o:])+memoryAt)
	}
}

// wordSize is the size of an address in bytes.
const wordSize = int(unsafe.Sizeof(uintptr(0)))

func appendWord(b []byte, v uintptr) []byte {
	if wordSize == 4 {
		return binary.NativeEndian.AppendUint32(b, uint32(v))
	}
	return binary.NativeEndian.AppendUint64(b, uint64(v))
}

// getWord returns the address at the begin of some memory.
func getWord(b []byte) uintptr {
	if wordSize == 4 {
		return uintptr(binary.NativeEndian.Uint32(b))
	}
	return uintptr(binary.NativeEndian.Uint64(b))
}
