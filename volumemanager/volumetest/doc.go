// SPDX-License-Identifier: Apache-2.0

// Package volumetest has the conformance suite for every volumemanager.Plugin, and a fake plugin
// with faults for tests of packages that use a manager.
//
// # The suite
//
// The test of a plugin creates the plugin and a volume of each of its kinds, and calls Run:
//
//	func TestConformance(t *testing.T) {
//		volumetest.Run(t, volumetest.Harness{
//			Open: func(tb testing.TB, root string) volumetest.Subject {
//				source := newSource()
//				return volumetest.Subject{
//					Plugin: func() volumemanager.Plugin { return newPlugin(source) },
//					Spec:   volumemanager.Spec{Volume: configMapVolume("config")},
//					Change: source.Change,
//					Break:  source.Break,
//				}
//			},
//		})
//	}
//
// Each failure names the broken rule from the comments of volumemanager.Plugin and its abilities.
//
// Some rules need privileges or a particular kind of volume and are not checked: data behind a
// foreign mount stays untouched, owners and modes of files, and the right content. The plugin's own
// tests must cover these rules.
//
// # The fake
//
// Plugin is a working plugin that keeps its volumes in memory, or as folders below a root.
// Options.Behave makes calls fail with an error of any class, hang with or without regard to the
// context, or take time. Plugin records a manager's violations of the contract (see
// Plugin.Violations).
package volumetest
