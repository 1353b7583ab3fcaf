// SPDX-License-Identifier: Apache-2.0

package nodeserver

import (
	"container/list"
	"time"
)

// digest identifies a question by a hash, so that no token and no large question is kept.
type digest [32]byte

// cache holds values until they expire. A full cache drops the value with the oldest use. The time is an argument. A cache is not safe for concurrent use.
type cache[V any] struct {
	limit   int
	byKey   map[digest]*list.Element
	byUsage list.List // of *entry[V], the most recently used first
}

type entry[V any] struct {
	key   digest
	value V
	until time.Time
}

func newCache[V any](limit int) *cache[V] {
	return &cache[V]{limit: limit, byKey: map[digest]*list.Element{}}
}

// get returns a value that has not expired at now.
func (c *cache[V]) get(key digest, now time.Time) (value V, ok bool) {
	element := c.byKey[key]
	if element == nil {
		return value, false
	}
	e := element.Value.(*entry[V])
	if !now.Before(e.until) {
		c.drop(element)
		return value, false
	}
	c.byUsage.MoveToFront(element)
	return e.value, true
}

// put keeps a value until the given time.
func (c *cache[V]) put(key digest, value V, until time.Time) {
	if old := c.byKey[key]; old != nil {
		c.drop(old)
	}
	c.byKey[key] = c.byUsage.PushFront(&entry[V]{key, value, until})
	if c.byUsage.Len() > c.limit {
		c.drop(c.byUsage.Back())
	}
}

func (c *cache[V]) drop(element *list.Element) {
	c.byUsage.Remove(element)
	delete(c.byKey, element.Value.(*entry[V]).key)
}
