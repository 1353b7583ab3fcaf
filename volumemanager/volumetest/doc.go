// SPDX-License-Identifier: Apache-2.0

// Package volumetest is the conformance suite every volumemanager.Plugin passes,
// and a fake plugin with faults for tests of those who use a manager.
//
// # The suite
//
// A plugin's test says how to make the plugin, and one volume of each kind that
// it has, and calls Run:
//
//	func TestConformance(t *testing.T) {
//		volumetest.Run(t, volumetest.Harness{
//			Open: func(tb testing.TB, root string) volumetest.Subject {
//				source := newSource()
//				return volumetest.Subject{
//					Plugin: func() volumemanager.Plugin { return configmap.New(source.Get) },
//					Spec:   volumemanager.Spec{Volume: configMapVolume("config")},
//					Change: source.Change,
//					Break:  source.Break,
//				}
//			},
//		})
//	}
//
// Each failure says which sentence of the seam (the comments of
// volumemanager.Plugin and the abilities beside it) is broken.
//
// What is not checked, because it needs privileges or a particular kind of
// volume: that nothing behind a foreign mount is touched, owners and modes of
// files, what the content is. Those tests are the plugin's own.
//
// # The fake
//
// Plugin is a working plugin that keeps its volumes in memory, or as folders
// below a root, and does as its script says: fail with an error of any class,
// hang with or without regard to its context, take its time. It blames a manager
// that breaks the rules of the seam (see Plugin.Violations).
package volumetest
