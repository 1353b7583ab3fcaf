// SPDX-License-Identifier: Apache-2.0

// Package bigstack avoids the growth of a goroutine's stack in small steps.
package bigstack

// size is the room that Grow makes. The stack has 16 KiB then, which is the size of the largest
// stack that Go takes from the cache of a processor.
const size = 9 << 10

// Grow makes room for deep calls on the stack of the calling goroutine. A goroutine begins with 2 KiB,
// and Go copies all frames each time when the stack is full. Call Grow first in a goroutine that handles
// a single pod or request. Garbage collection takes unused room back.
func Grow() { reserve(0) }

// reserve has a frame of size bytes. The frame is neither written nor cleared if n is 0.
//
//go:noinline
func reserve(n int) {
	if n > 0 {
		var room [size]byte
		fill(&room, n)
	}
}

//go:noinline
func fill(room *[size]byte, n int) { room[n] = 1 }
