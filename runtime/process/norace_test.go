// SPDX-License-Identifier: Apache-2.0

//go:build !race

package process_test

const raceEnabled = false
