// Command registry is the distribution registry with the one storage driver that a local cluster needs.
// Its own main leaves out the cloud drivers, whose SDKs would be most of the build.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if err := registry.RootCmd.Execute(); err != nil {
		os.Exit(1)
	}
}
