// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// fillNode starts the pods of a large node, fails if a pod fails, and measures the idle agent.
func fillNode(ctx context.Context, n *node, pods int, idle time.Duration) error {
	took, err := n.many(ctx, pods)
	if err != nil {
		return err
	}
	row(fmt.Sprintf("%d pods at once, all running", pods), 0, took, "without an error")
	problems, err := n.problems()
	if err != nil {
		return err
	}
	fmt.Printf("  warnings and errors in the agent's log: %d\n", len(problems))
	for _, p := range problems[:min(len(problems), 5)] {
		fmt.Println("   ", p)
	}
	if err := idleNode(ctx, n, pods, idle, idleGoals{"≤ 1 %", "≤ 80 MiB"}); err != nil {
		return err
	}
	return n.check()
}

// problems are the warnings and errors in the agent's log.
func (n *node) problems() (lines []string, err error) {
	text, err := os.ReadFile(filepath.Join(n.dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	all := bufio.NewScanner(bytes.NewReader(text))
	all.Buffer(nil, 1<<20)
	for all.Scan() {
		var entry struct{ Level string }
		if json.Unmarshal(all.Bytes(), &entry) != nil || entry.Level == "warn" || entry.Level == "error" {
			lines = append(lines, all.Text())
		}
	}
	return lines, all.Err()
}
