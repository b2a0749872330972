import Image from 'next/image'
import imported from './imported.png'

export default function Picture() {
  return (
    <>
      <h1>Picture</h1>
      <Image id="public" src="/picture.png" alt="public" width={64} height={64} priority />
      <Image id="imported" src={imported} alt="imported" width={64} height={64} priority />
    </>
  )
}
