import { Injectable } from '@nestjs/common';
import { CurrentLock, type Lock, Locked } from 'nestjs-redis-lock';

interface Parcel {
  readonly id: number;
  readonly isFragile: boolean;
}

@Injectable()
export class ParcelService {
  @Locked('parcel:<parcel.id>', { when: (parcel: Parcel) => parcel.isFragile })
  async send(parcel: Parcel, @CurrentLock() lock?: Lock): Promise<string> {
    return `parcel ${parcel.id} is sent ${lock === undefined ? 'with others' : 'alone'}`;
  }
}
