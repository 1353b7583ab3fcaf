// SPDX-License-Identifier: Apache-2.0

// Package deviceplugin connects device plug-ins (v1beta1) with a node, over gRPC on Unix sockets.
// Plug-ins register in one of two ways: with a call to kubelet.sock, or with a socket in the folder
// of a Watcher.
//
//	server, err := deviceplugin.Listen("/var/lib/kubelet/device-plugins", deviceplugin.Options{Follow: manager.Follow})
//	go server.Serve(ctx)
//	watcher, err := deviceplugin.NewWatcher("/var/lib/kubelet/plugins_registry", deviceplugin.WatcherOptions{
//		Hinter: fsnotify.Hinter{}, Handlers: map[string]deviceplugin.Handler{deviceplugin.Type: server},
//	})
//	go watcher.Run(ctx)
//
// Listen removes all sockets from its folder: plug-ins notice the removal, or the new kubelet.sock,
// and register again. Serve and Run own the goroutines for their plug-ins, and join them.
//
// # Differences from the kubelet (1.36)
//
//   - Listen fails if another program answers on kubelet.sock. The kubelet removes the socket of the
//     other program.
//   - The endpoint in a call of Register is the name of a socket in the folder. Paths are refused.
package deviceplugin
