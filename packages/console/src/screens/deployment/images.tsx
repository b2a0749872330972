import { type Deployment, inspectImageCache, purgeImageCache } from '@platform/sdk'
import { useState } from 'preact/hooks'
import { didAs } from '../../command/terminal.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { Empty, Failure } from '../../parts/notice.tsx'
import { Loaded } from '../../parts/panel.tsx'
import { tell } from '../../parts/toast.tsx'
import { When } from '../../parts/when.tsx'
import { useApi, useChange } from '../../platform/api.ts'
import { ofApplication } from '../../platform/deployments.ts'
import { bytes, counted, duration, number } from '../../words.ts'

/** The smaller images that were made of its larger ones. */
export default function Images({ deployment: { id, applicationId } }: { deployment: Deployment }) {
  const key = [...ofApplication(applicationId), 'images', id]
  /** What is asked about: one source, or null for all. */
  const [asked, ask] = useState<{ source: string | null }>()
  const cache = useApi(key, (platform, options) => inspectImageCache(platform, { id }, options))
  const purge = useChange(
    (platform, source: string | null) => purgeImageCache(platform, source === null ? { id } : { id, source }),
    {
      stale: [key],
      onDone: (_, source) => {
        const query = source === null ? '' : `?source=${encodeURIComponent(source)}`
        didAs({ method: 'DELETE', path: `/deployments/${id}/image-cache${query}` })
        ask(undefined)
        tell('Purged: the images are made again when somebody asks for them')
      },
    },
  )
  return (
    <Loaded answer={cache} rows={4}>
      {({ enabled, entries, totalBytes, policy }) =>
        !enabled && entries.length === 0 ? (
          <Empty>It does not optimize images. Frameworks that do, such as Next.js, switch it on in their build.</Empty>
        ) : (
          <div class="flex flex-col gap-4">
            <div class="flex flex-wrap items-center justify-between gap-3">
              <p class="text-soft">
                {bytes(totalBytes)} of {bytes(policy.organizationBytesMax)} that all deployments of the organization
                share. A source is fetched again after {duration(policy.minimumCacheSeconds * 1_000)} at the earliest.
              </p>
              {entries.length > 0 && <Button onClick={() => ask({ source: null })}>Purge all</Button>}
            </div>
            {entries.length === 0 ? (
              <Empty>No image has been asked for yet.</Empty>
            ) : (
              <table class="rows">
                <thead>
                  <tr>
                    <th scope="col">Source</th>
                    <th scope="col" class="figure">
                      Variants
                    </th>
                    <th scope="col" class="figure">
                      Size
                    </th>
                    <th scope="col">Last asked for</th>
                    <th scope="col">
                      <span class="sr-only">Actions</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {entries.map(({ source, variants, bytes: size, lastUsedAt }) => (
                    <tr key={source}>
                      <td class="font-mono text-note break-all max-sm:basis-full">{source}</td>
                      <td class="figure" data-label="Variants">
                        {number(variants)}
                      </td>
                      <td class="figure">{bytes(size)}</td>
                      <td>
                        <When at={lastUsedAt} />
                      </td>
                      <td>
                        <Button onClick={() => ask({ source })}>
                          Purge<span class="sr-only"> {source}</span>
                        </Button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            )}
            {asked && (
              <Dialog
                title={asked.source === null ? 'Purge all images?' : 'Purge this image?'}
                verb="Purge"
                kind="danger"
                isBusy={purge.isPending}
                onConfirm={() => purge.mutate(asked.source)}
                onClose={() => ask(undefined)}
              >
                <p class="break-all">
                  <bdi>{asked.source ?? counted(entries.length, 'source')}</bdi> {asked.source === null ? 'are' : 'is'}{' '}
                  fetched and made smaller again, at the next visit.
                </p>
                {purge.error && <Failure error={purge.error} />}
              </Dialog>
            )}
          </div>
        )
      }
    </Loaded>
  )
}
